"""``netprobe plan auto``: map.json -> plan.json of kind schedule, the fastest that is known."""

from __future__ import annotations

from typing import Any

from netprobe.cli.options.documents import MapArgument, load_capacity
from netprobe.cli.options.schedules import (
    CapacityOption,
    HostsOption,
    OutOption,
    SizeOption,
    tried_rows,
)
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption, VerboseOption
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
        output.say(f"{_headline(planned)}.")
    output.document(path, **_summary(planned, request.size_bytes))
    return 0


def _headline(planned: Any) -> str:
    from netprobe.report.headline import auto_headline

    decision = planned.decision
    found = {one.candidate: one.prediction for one in planned.tried}
    own, base = found.get(decision.candidate), found.get(decision.baseline)
    ratio = None
    if decision.reason == "faster" and own is not None and base is not None and own.time_s:
        ratio = base.time_s / own.time_s
    return auto_headline(decision.candidate.label, decision.baseline.label, ratio, decides=planned.decides)


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
