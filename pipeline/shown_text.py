"""What a folder or a document holds, for a terminal: texts and tables, one below the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from netprobe.pipeline.mapping.findings import direction_lines, outlier_lines
from netprobe.pipeline.showing import Shown
from netprobe.report import terminal
from netprobe.report.headline import UNCHECKED, headline, schedule_headline

if TYPE_CHECKING:
    from netprobe.core.documents.ds_sync_plan import DsSyncPlan
    from netprobe.core.documents.plan import OrderPlan, Plan
    from netprobe.core.documents.schedule_plan import SchedulePlan


def shown_parts(shown: Shown, *, width: int, encoding: str = "utf-8") -> list[Any]:
    """Texts, and what rich renders: a heat map of ``width`` columns, groups, capacities, plans, runs, what to do."""
    parts = _map_parts(shown, width, encoding)
    if shown.capacity is not None:
        from netprobe.report.capacity import capacity_parts

        parts += [*capacity_parts(shown.capacity), ""]
    for path, plan in shown.plans:
        parts += [*_plan_lines(path, plan, unchecked=path in shown.edited), ""]
    for path, verify in shown.verifies:
        from netprobe.report.verify import verify_parts

        parts += [f"{path.name}:", *verify_parts(verify), ""]
    order = next((cast("OrderPlan", plan) for _, plan in shown.plans if plan.kind == "order"), None)
    made_of = None if order is None else order.parent().sha256
    # A run of another plan says nothing of this one.
    ran = next((v for _, v in shown.verifies if made_of in {parent.sha256 for parent in v.parents}), None)
    sentence = headline(shown.map, order, ran)
    if ran is None and any(plan is order and path in shown.edited for path, plan in shown.plans):
        sentence += f" ({UNCHECKED})"
    schedules = [(path, cast("SchedulePlan", plan)) for path, plan in shown.plans if plan.kind == "schedule"]
    if schedules and sentence and ran is None and order is not None:
        # Two advices of one folder are about two things: who is which rank, and which transfers are run.
        sentence = f"For a job's own collectives, by latency: {sentence}"
    said = [
        schedule_headline(path.name, plan, order, unchecked=path in shown.edited) for path, plan in schedules
    ]
    return [*parts, *said, *([sentence] if sentence else [])]


def _map_parts(shown: Shown, width: int, encoding: str) -> list[Any]:
    scan, map_ = shown.scan, shown.map
    parts: list[Any] = []
    if scan is not None:
        parts += [terminal.scan_text(scan), *(f"warning: {text}" for text in scan.warnings[:10]), ""]
    if map_ is None:
        return parts
    if scan is not None and len(scan.hosts) > 1:
        parts += [terminal.heat_map(scan, map_, width=width, encoding=encoding), ""]
    parts += [terminal.group_table(map_), "", *outlier_lines(map_.outliers), *direction_lines(map_)]
    return [*parts, *terminal.unplaced_text(map_), map_.verdict.text, ""]


def _plan_lines(path: Path, plan: Plan, *, unchecked: bool) -> list[Any]:
    """What is of another kind than those in the folder is not imported: a model of pydantic takes its time.

    ``unchecked``: it was edited, and nothing shows that its figures and its advice are of it."""
    advice, edited = getattr(plan, "advice", None), ""
    if unchecked:
        edited = " (edited: its figures and advice are unchecked)"
        plan = plan.model_copy(update={} if advice is None else {"advice": f"unchecked: {advice}"})
    if plan.kind == "order":
        return [f"{path.name}, an order of the ranks{edited}:", terminal.order_text(cast("OrderPlan", plan))]
    if plan.kind == "schedule":
        return [f"{path.name}, a schedule{edited}:", *_schedule_parts(cast("SchedulePlan", plan))]
    if plan.kind == "ds_sync":
        from netprobe.report.schedule import pattern_lines

        return [
            f"{path.name}, which hosts average with which{edited}:",
            *pattern_lines(cast("DsSyncPlan", plan)),
        ]
    return [f"{path.name}, a plan of kind {plan.kind}"]


def _schedule_parts(plan: SchedulePlan) -> list[Any]:
    """As the command that planned it printed it: candidates, what was chosen, which choice holds for which size."""
    from netprobe.report.schedule import TriedTable, ranges_text, schedule_text, unknown_text

    timed = any(one.tells_time for one in plan.predictions)
    table = [TriedTable(plan.candidates, timed=timed, more="--json"), ""] if plan.candidates else []
    return [*table, schedule_text(plan), *ranges_text(plan.ranges), *unknown_text(plan.unknown)]
