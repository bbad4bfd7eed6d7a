"""Options of ``netprobe scan`` for what is probed, how fast, and whether a scan is resumed."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netprobe.cli.output import Output
    from netprobe.pipeline.prepared_chain import ChainEstimate
    from netprobe.probe.scan.estimate import PhaseEstimate

ProbesOption = Annotated[
    int, typer.Option("--probes", help="Probes of one visit; each pair gets two visits.")
]
IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", help="Mean time between the probes of a link.")
]
LinksAtOnceOption = Annotated[
    int, typer.Option("--links-at-once", metavar="N", help="Links measured at a time (0: half of the hosts).")
]
PairsOption = Annotated[
    str | None,
    typer.Option(
        "--pairs", metavar="N", help="Probe so many pairs, or a share such as 5%, the most telling ones."
    ),
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="60s", help="Probe for so long, the most telling pairs first.")
]
RateOption = Annotated[
    str | None,
    typer.Option("--rate", metavar="RATE", help="Keep the scan's traffic below this: 10Mbit/s, say."),
]
GentleOption = Annotated[
    bool,
    typer.Option("--gentle", help="For fleets that are working: few links at a time, long intervals."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and start nothing.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume the scan in --out that ended early.")]

_OPTION_OF = {
    "probes_per_visit": "probes",
    "interval_s": "interval",
    "precision_s": "full_visits",
    "start_timeout_s": "start_timeout",
}


def explicit_fields(ctx: typer.Context) -> dict[str, str]:
    """Fields of ScanOptions that were given on the command line, with the names of their options."""
    from netprobe.probe.records.options import ScanOptions

    given = {}
    for field in fields(ScanOptions):
        name = _OPTION_OF.get(field.name, field.name)
        if given_on_command_line(ctx, name):
            given[field.name] = "--" + name.replace("_", "-")
    for name in ("ipv4", "ipv6"):
        if given_on_command_line(ctx, name):
            given["family"] = f"--{name}"
    return given


def given_on_command_line(ctx: typer.Context, name: str) -> bool:
    """Whether the user gave a value for this parameter."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def explicit_words(ctx: typer.Context, words: Iterable[str]) -> dict[str, str]:
    """Those of ``words`` (parameters of the command) that were given on the command line, with their options."""
    return {word: "--" + word.replace("_", "-") for word in words if given_on_command_line(ctx, word)}


def show_estimate(estimate: ChainEstimate, output: Output) -> None:
    """What ``--dry-run`` says of a scan; of one that is resumed, what is left."""
    from netprobe.core.units import count
    from netprobe.pipeline.scanning.goodput import assumed_sizes

    hosts, options, measuring = estimate.hosts, estimate.options, estimate.measuring
    what = "This is left of the scan that is resumed. " if estimate.resumed else ""
    show_phases(hosts, estimate.phases, output, what=what)
    if estimate.complete:
        return
    most = "at most " if options.may_end_early else ""
    output.say(
        f"{most}{count(options.probes_per_visit, 'probe')} a visit, {1e3 * options.interval_s:.3g} ms apart"
    )
    if measuring.goodput is not None or measuring.capacity is not None:
        output.say(
            f"assumed: flows run at 1 Gbit/s each, and the hosts form "
            f"{count(len(assumed_sizes(hosts)), 'equal group')}; faster links carry more, other groups need other "
            "rounds"
        )
    if measuring.goodput is not None and measuring.goodput.options.way == "auto":
        output.say("assumed: goodput is measured by iperf3; where a host lacks it, tests are shorter (tcp)")


def show_phases(hosts: int, phases: Sequence[PhaseEstimate], output: Output, *, what: str = "") -> None:
    """The cost of the phases alone, for people and as JSON."""
    from netprobe.core.units import count, rough_rate_text, rough_size_text

    output.say(
        f"{count(hosts, 'host')}; nothing was started. {what}With all of them up, and the launch of the agents "
        "not counted:"
    )
    for phase in phases:
        rounds, links = ("tests", "flows") if phase.measurement == "capacity" else ("rounds", "links")
        output.say(
            f"{phase.measurement} ({phase.method}): {phase.rounds} {rounds}, {phase.links} {links}, at most "
            f"{phase.links_at_once} at once: about {phase.seconds:.0f} s, {rough_size_text(phase.bytes)}, at most "
            f"{rough_rate_text(phase.bytes_per_s)} in all"
        )
    data: dict[str, Any] = {
        "dry_run": True,
        "hosts": hosts,
        "rounds": sum(phase.rounds for phase in phases),
        "links": sum(phase.links for phase in phases),
        "seconds": sum(phase.seconds for phase in phases),
        "bytes": sum(phase.bytes for phase in phases),
        "measurements": [asdict(phase) for phase in phases],
    }
    output.result(data)
