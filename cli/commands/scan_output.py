"""What ``netprobe scan`` says at its end: for people, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from netprobe.cli.output import Output, next_lines

if TYPE_CHECKING:
    from netprobe.pipeline.chain import Chain


def show_chain(chain: Chain, output: Output, shown: Container[str] = ()) -> None:
    """The scan, the map and the order; the JSON object where that was requested. ``shown``: the warnings that came
    with the progress, which are not repeated."""
    output.result(summary(chain))
    if output.json or output.quiet:
        return
    from netprobe.report import terminal
    from netprobe.report.goodput import goodput_text
    from netprobe.report.paths import paths_text

    warnings = [f"warning: {text}" for text in chain.warnings if text not in shown]
    output.say(terminal.scan_text(chain.scan), *paths_text(chain.scan), *goodput_text(chain.scan), *warnings)
    if chain.map is not None:
        output.say("")
    if chain.map is not None and len(chain.scan.hosts) > 1:
        console = output.console()
        output.say(
            terminal.heat_map(chain.scan, chain.map, width=console.width, encoding=console.encoding),
            "",
            terminal.group_table(chain.map),
            "",
        )
    if chain.map is not None:
        output.say(*terminal.unplaced_text(chain.map), chain.map.verdict.text)
    if chain.capacity is not None:
        from netprobe.cli.commands.capacity import show_capacity

        output.say("")
        show_capacity(chain.capacity, output)
        output.say("")
    if chain.plan is not None:
        output.say(terminal.order_text(chain.plan, detail=output.verbose))
    if chain.schedule is not None:
        output.say(f"all-reduce by netprobe plan auto: {chain.schedule.text}")
    if chain.score is not None:
        from netprobe.core.units import count

        crossings, racks = chain.score.crossings, count(chain.score.racks, "rack")
        hops = "" if crossings is None else f", {count(crossings, 'crossing')} of the ring"
        output.say(f"against the lab's truth: ARI {chain.score.ari:.2f}{hops} for {racks}")
    if chain.verify is not None:
        from netprobe.cli.commands.verify import show_verify

        output.say("")
        show_verify(chain.verify, output)
    output.say("", f"files in {chain.folder}: {' '.join(written(chain))}", *next_lines(*next_commands(chain)))
    if chain.exported is not None and chain.exported.command is not None and chain.exported.hint:
        output.say(f"      ({chain.exported.hint})")
    if chain.map is not None:
        from netprobe.report.headline import chain_headline

        output.say(f"{chain_headline(chain.map, chain.plan, chain.verify, chain.schedule)}.")


def written(chain: Chain) -> list[str]:
    """The names of the files in the folder."""
    return sorted(path.name for path in chain.folder.iterdir() if not path.name.startswith("."))


def next_commands(chain: Chain) -> list[str]:
    """The likeliest first; what was measured already is not asked for again."""
    folder = shlex.quote(str(chain.folder))
    commands = [next_command(chain)]
    if chain.scan.status != "ok" and chain.score is None:
        # What is missing, when its cause is mended.
        commands.append(f"netprobe scan --resume --out {folder}")
    if chain.capacity is not None and chain.score is None and chain.schedule is not None:
        commands.append(f"netprobe plan auto {folder}")
    if chain.plan is not None and chain.verify is None and chain.score is None:
        via = "" if chain.via in (None, "ssh") else f" --via {shlex.quote(chain.via)}"
        commands.append(f"netprobe verify {folder}{via}")
    return [*commands, f"netprobe show {folder}"]


def next_command(chain: Chain) -> str:
    """What to type after this. A lab's hosts are gone with it: no launcher can start ranks there."""
    if chain.score is not None:
        return f"netprobe eval {chain.folder / 'map.json'} --truth {chain.folder / 'truth.json'}"
    if chain.exported is not None and chain.exported.command is not None:
        return chain.exported.command
    if chain.exported is not None:
        return f"give the order in {chain.exported.path} to what starts the ranks: {chain.exported.order}"
    if chain.plan is not None:
        return f"netprobe export hostfile {chain.folder / 'plan.json'}"
    if chain.map is not None:
        return f"netprobe plan order {chain.folder / 'map.json'}"
    return f"netprobe map {chain.folder / 'scan.json'}"


def summary(chain: Chain) -> dict[str, Any]:
    """What ``--json`` says."""
    from netprobe.cli.commands.mapping import map_summary
    from netprobe.cli.commands.plan import plan_summary

    data: dict[str, Any] = {
        "out": str(chain.folder),
        "files": written(chain),
        "status": chain.scan.status,
        "reason": chain.scan.reason,
        "hosts": [{"name": h.name, "status": h.status, "reason": h.reason} for h in chain.scan.hosts],
        "duration_s": chain.scan.duration_s,
        "warnings": list(chain.warnings),
    }
    if chain.map is not None:
        data |= map_summary(chain.map)
    if chain.capacity is not None:
        from netprobe.cli.commands.capacity import capacity_summary

        data["capacity"] = capacity_summary(chain.capacity)
    if chain.plan is not None:
        data |= plan_summary(chain.plan)
    if chain.schedule is not None:
        data["schedule"] = chain.schedule.text
    if chain.exported is not None:
        data["command"] = chain.exported.command
    if chain.verify is not None:
        from netprobe.cli.commands.verify import verify_summary

        data["verify"] = verify_summary(chain.verify)
    if chain.score is not None:
        data |= {
            "ari": chain.score.ari,
            "racks": chain.score.racks,
            "rack_crossings": chain.score.crossings,
        }
    return data
