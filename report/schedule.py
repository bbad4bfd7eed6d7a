"""Schedules in a terminal: what was tried and what it should take, and the plan that came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions
from rich.table import Table

from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.core.documents.schedule_plan import Prediction, SchedulePlan, SizeRange, TriedCandidate
from netprobe.core.units import count, seconds_text, size_text
from netprobe.report.terminal import fold_names

ROWS_SHOWN = 5
_WIDEST = 1000
"""Columns of a terminal on which everything has room."""
_COLUMNS = ("candidate", "pieces", "time", "interval", "steps", "wire", "across", "busiest")
_LEFT = frozenset({"candidate", "busiest"})
_LEAST_FIRST = ("pieces", "wire", "steps", "busiest", "across", "interval")
"""Columns in the order in which a narrow terminal goes without them."""


class TriedTable:
    """One row per candidate, the chosen one first. Without ``timed`` no times: nothing says what bytes take.

    On a narrow terminal the columns that say least are left out, rather than words broken into pieces.
    """

    def __init__(
        self,
        tried: Sequence[TriedCandidate],
        *,
        timed: bool = True,
        all_rows: bool = False,
        more: str = "-v",
    ) -> None:
        """``tried``: the chosen one first; the first few of them unless all are wanted, which ``more`` shows."""
        few = tried[:ROWS_SHOWN] if timed else [one for one in tried if one.prediction][:ROWS_SHOWN]
        self._rows = [_cells(one) for one in (tried if all_rows else few)]
        self._left_out = len(tried) - len(self._rows)
        self._more = more
        self._columns = [
            name
            for name in _COLUMNS
            if (timed or name not in ("time", "interval", "busiest"))
            and (name != "interval" or any(_interval(one.prediction) for one in tried))
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The table, as wide as there is room for."""
        columns, wide = list(self._columns), options.update(max_width=_WIDEST)
        for name in (*_LEAST_FIRST, None):
            table = self._table(columns)
            if name is None or console.measure(table, options=wide).maximum <= options.max_width:
                yield table
                return
            columns = [one for one in columns if one != name]

    def _table(self, columns: Sequence[str]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in columns:
            # Words wrap where even the fewest columns are too wide; figures do not.
            left, first = name in _LEFT, name == "candidate"
            table.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=not first)
        for cells in self._rows:
            table.add_row(*(cells[name] for name in columns))
        if self._left_out:
            table.add_row(f".. and {self._left_out} more ({self._more})", *[""] * (len(columns) - 1))
        return table


def _cells(one: TriedCandidate) -> dict[str, str]:
    found = one.prediction
    time_s = one.time_s if found is None else found.time_s
    cells = dict.fromkeys(_COLUMNS, "")
    cells |= {
        "candidate": one.name,
        "pieces": str(one.pieces),
        "time": f">{seconds_text(one.at_least_s)}" if one.at_least_s is not None else seconds_text(time_s),
    }
    if found is None:
        return cells
    return cells | {
        "interval": _interval(found),
        "steps": str(found.steps),
        "wire": size_text(found.bytes_on_wire),
        "across": "" if found.bytes_across_groups is None else size_text(found.bytes_across_groups),
        "busiest": "" if found.busiest is None else f"{found.busiest} {found.utilisation or 0:.0%}",
    }


def _interval(found: Prediction | None) -> str:
    if found is None or found.low_s is None:
        return ""
    return f"{seconds_text(found.low_s)} to {'?' if found.high_s is None else seconds_text(found.high_s)}"


def schedule_text(plan: SchedulePlan) -> str:
    """What a plan of kind schedule is: its algorithm, groups, pieces, and what the figures say."""
    chunks = count(int(plan.weights[:, 0].sum()), "chunk")
    channels = "" if plan.channels == 1 else f" over {count(plan.channels, 'connection')} per pair of hosts"
    from netprobe.plan.schedule.builders import is_own_name

    own = "" if is_own_name(plan.algorithm) else " (a name that is none of netprobe's algorithms)"
    name = f"{plan.algorithm}{own}"
    lines = [
        f"{name} among {count(len(plan.order), 'host')} in {chunks}{channels}: proved for {_models(plan)}"
    ]
    if plan.groups:
        sizes = ", ".join(str(len(group)) for group in plan.groups)
        lines.append(f"{count(len(plan.groups), 'group')} ({plan.grouping}) of {sizes}")
    if plan.advice is not None:
        lines.append(plan.advice)
    if plan.left_out:
        lines.append(f"left out, since they are not placed on the map: {fold_names(plan.left_out)}")
    return "\n".join(lines)


def _models(plan: SchedulePlan) -> str:
    return ", ".join(plan.safe_under) or "no model of buffers"


def ranges_text(ranges: Sequence[SizeRange]) -> list[str]:
    """Which choice holds for which sizes, one line each."""
    lines = []
    for one in ranges:
        none = "not looked at: it would have taken too long" if one.reason == "left_out" else "not known"
        what = none if one.choice is None else one.choice
        kept = " (kept: nothing is surely faster)" if one.reason == "close" else ""
        lines.append(f"  {size_text(one.first_bytes)} to {size_text(one.last_bytes)}: {what}{kept}")
    return ["which choice holds for which size of the buffer:", *lines] if lines else []


def unknown_text(unknown: Sequence[str]) -> list[str]:
    """What remains unknown, one line each."""
    return [f"not known: {text}" for text in unknown]


def pattern_lines(plan: DsSyncPlan) -> list[str]:
    """How long a pattern is, its first iteration, and the advice."""
    groups = "; ".join(
        ", ".join(group[:8]) + (" .." if len(group) > 8 else "") for group in plan.pattern[0].groups[:8]
    )
    again = f"a pattern of {count(plan.pattern_length, 'iteration')}, over and over"
    if plan.pattern_length == 1:
        return [f"every iteration averages: {groups}", *filter(None, [plan.advice])]
    return [f"{again}; its first averages: {groups}", *filter(None, [plan.advice])]
