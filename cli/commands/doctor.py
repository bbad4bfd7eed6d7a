"""``netprobe doctor``: what this machine offers, and with ``--hosts`` what every host does."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from netprobe.cli.options.addresses import Addresses
from netprobe.cli.options.groups import grouped
from netprobe.cli.options.launching import Reach, SelectorOption
from netprobe.cli.output import JsonOption, Output, QuietOption
from netprobe.core.text import listed

if TYPE_CHECKING:
    from netprobe.pipeline.doctor.hosts import FleetReport
    from netprobe.probe.audit.examine import Findings

NAMES_SHOWN = 8
_TITLES = (
    "host", "state", "address", "port", "python", "stamps", "iperf3", "fping", "raw icmp", "own name", "clock",
)  # fmt: skip


@grouped
def doctor(
    *,
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="Start an agent on each of these hosts, and check it.")
    ] = None,
    reach: Reach,
    addresses: Addresses,
    selector: SelectorOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Say what this machine offers netprobe; with --hosts, what every host lacks and what that costs.

    Exit codes with --hosts: 0 every host can be probed, 3 some cannot, 4 none can.
    """
    output = Output(json=json, quiet=quiet)
    if hosts is None and reach.via is None and selector is None:
        return _this_machine(output)
    from netprobe.cli.options.launching import hosts_or_selector
    from netprobe.pipeline.doctor.hosts import examine_hosts, passing_text
    from netprobe.pipeline.scanning.hosts import hosts_to_scan
    from netprobe.probe.records.options import ScanOptions

    launcher = reach.launcher()
    options = ScanOptions(**reach.fields(), **addresses.fields())
    given = hosts_to_scan(
        hosts_or_selector(hosts, selector), reach.way, launcher, output.note, options=options
    )
    launcher.check(given)
    report = examine_hosts(given, launcher=launcher, options=options)
    passing = passing_text(report.findings)
    output.say(_table(report), *([passing] if passing else []), *_lacks(report))
    output.result(report.as_dict() | {"exit_code": report.exit_code})
    return report.exit_code


def _this_machine(output: Output) -> int:
    from netprobe.pipeline.doctor.machine import doctor as examine

    checks = examine()
    width = max(len(check.name) for check in checks)
    for check in checks:
        output.say(f"{check.state:<7}  {check.name:<{width}}  {check.found}")
        if check.state != "ok":
            remedy = f"; {check.remedy}" if check.remedy else ""
            output.say(f"{'':<7}  {'':<{width}}  needed for {check.needed_for}{remedy}")
    output.result({"checks": [asdict(check) for check in checks]})
    return 0


def _table(report: FleetReport) -> str:
    """One line per host; as wide as it needs to be, since a name broken over lines cannot be read."""
    rows: list[tuple[str, ...]] = [_TITLES]
    rows += [(f.host.name, f.status, f.host.address or "-", *_cells(f)) for f in report.findings]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_TITLES))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )


def _cells(found: Findings) -> tuple[str, ...]:
    audit = found.audit
    programs = {} if audit is None else audit.programs
    own = found.own_addresses
    return (
        "-" if found.port is None else str(found.port),
        "-" if found.agent is None else found.agent.python,
        found.stamps or "-",
        "-" if audit is None else _version(programs.get("iperf3")),
        "-" if audit is None else _version(programs.get("fping")),
        "-" if audit is None else "yes" if audit.raw_icmp else "no",
        "-" if own is None else own[0] if own else "none",
        "-" if found.clock_offset_s is None else f"{found.clock_offset_s:+.1f} s",
    )


def _version(line: str | None) -> str:
    """The word of a program's first line that begins with a digit."""
    return next(
        (word for word in (line or "").split() if word[:1].isdigit()), "no" if line is None else "yes"
    )


def _lacks(report: FleetReport) -> list[str]:
    lines = []
    for lack in report.lacks:
        costs = f"{lack.costs[:1].upper()}{lack.costs[1:]}"
        lines.append(f"{listed(lack.hosts, NAMES_SHOWN)}: {lack.what}. {costs}.")
    return lines or ["every host can be probed, and lacks nothing"]
