"""``netprobe plan auto``: map.json -> plan.json of kind schedule, the fastest that is known."""

from __future__ import annotations

import shlex
from typing import Any

from netprobe.cli.options.documents import MapArgument, load_capacity
from netprobe.cli.options.schedules import (
    CapacityOption,
    HostsOption,
    OutOption,
    SizeOption,
    tried_rows,
)
from netprobe.cli.output import (
    ForceOption,
    JsonOption,
    Output,
    QuietOption,
    SeedOption,
    VerboseOption,
    next_lines,
)
from netprobe.cli.progress import working


def choose(
    map_file: MapArgument,
    out: OutOption = None,
    hosts: HostsOption = None,
    capacity: CapacityOption = None,
    size: SizeOption = "100MB",
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> int:
    """Choose algorithm, order, groups and chunks of an all-reduce by the simulator."""
    from netprobe.cli.options.numerics import load_numerics

    load_numerics()
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.formats import input_files, load_hosts
    from netprobe.pipeline import files
    from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto
    from netprobe.probe.methods.goodput_options import parse_size

    path = out or files.plan_path(map_file.parent, "schedule", "auto")
    request = AutoRequest(
        hosts=load_hosts(hosts) if hosts is not None else None, size_bytes=parse_size(size).bytes, seed=seed
    )
    document = load_document(Map, map_file)
    measured, rates = load_capacity(capacity, document, map_file.parent)
    inputs = [map_file, *rates]
    inputs += input_files(hosts) if hosts is not None else []
    files.prepare_file(path, kind="plan", force=force, inputs=inputs)
    output = Output(json=json, quiet=quiet, verbose=verbose)
    with working(output, "choosing a schedule"):
        planned = plan_auto(document, request, capacity=measured)
    files.save(planned.plan, path)

    if not (json or quiet):
        from netprobe.report.schedule import TriedTable, ranges_text, schedule_text, unknown_text

        output.say(TriedTable(planned.plan.candidates, timed=planned.decides, all_rows=verbose), "")
        output.say(schedule_text(planned.plan), *ranges_text(planned.plan.ranges))
        output.say(*unknown_text(planned.unknown), f"wrote {path}")
        if not planned.decides:
            # What the map does support: an order by latency; and what would tell, where there is somebody to ask.
            where = shlex.quote(str(map_file.parent))
            more = [f"netprobe capacity {where}"] if document.by_agents else []
            output.say(*next_lines(f"netprobe plan order {shlex.quote(str(map_file))}", *more))
        output.say(f"{_headline(planned, by_agents=document.by_agents)}.")
    output.document(path, **_summary(planned, request.size_bytes))
    return 0


def _headline(planned: Any, *, by_agents: bool) -> str:
    from netprobe.report.headline import auto_headline

    own, base = planned.decision.candidate.label, planned.decision.baseline.label
    return auto_headline(own, base, planned.ratio, decides=planned.decides, by_agents=by_agents)


def _summary(planned: Any, size_bytes: int) -> dict[str, Any]:
    """What ``--json`` says besides the plan: the table, which choice holds where, what remains unknown."""
    return {
        "reason": planned.decision.reason,
        "baseline": planned.decision.baseline.label,
        "tried": tried_rows(planned.tried, size_bytes),
        "ranges": [
            {
                "first_bytes": one.first_bytes,
                "last_bytes": one.last_bytes,
                "choice": None if one.candidate is None else one.candidate.label,
                "algorithm": None if one.candidate is None else one.candidate.algorithm,
                "reason": one.reason,
            }
            for one in planned.ranges
        ],
        "unknown": list(planned.unknown),
    }
