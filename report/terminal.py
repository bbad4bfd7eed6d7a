"""A map and a plan in a terminal: heat map in group order, table of groups, the order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.numeric.medians import median, quantile, row_medians
from netprobe.core.units import count, rate_text, seconds_text
from netprobe.report.missing import missing_lines

SHADES = " ░▒▓█"
ASCII_SHADES = " .+*#"
DOTS = ".."
"""After a name that stands for more hosts, or that is cut."""
LABEL = 20
"""The most columns for a name."""
MISSING = "·"
ASCII_MISSING = "?"
PROVEN = 1e-6
"""An order so near to its bound, relatively, is the best one; rounding parts them."""
_COLOURS = ("green", "yellow", "orange1", "red", "magenta")


def group_order(map_: Map) -> list[int]:
    """Indices of the hosts, group by group, unplaced ones last."""
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    names = [name for group in map_.groups for name in group.hosts] + list(map_.unplaced)
    return [index[name] for name in names]


def heat_map(scan: Scan, map_: Map, *, width: int, encoding: str = "utf-8") -> RenderableType:
    """What was measured, in group order; the darker, the farther (or slower). Shrinks to ``width`` columns.

    The p10 of RTT, or where the groups are those of goodput the seconds per byte.

    An ``encoding`` that cannot write the block characters gets ASCII ones.
    """
    shades, gap = _marks(encoding)
    index = {host.name: i for i, host in enumerate(scan.hosts)}
    order = [index[map_.hosts[i].name] for i in group_order(map_)]
    cells = _measured(scan, map_)[np.ix_(order, order)]
    names = [scan.hosts[i].name for i in order]
    longest = max(len(n) for n in names)
    label = min(longest, LABEL)
    if len(order) > _room(width, label):
        # The dots may narrow the picture by a column: what is shrunken for them stays shrunken.
        label = min(longest + len(DOTS), LABEL)
    step = -(-len(order) // _room(width, label))
    if step > 1:
        cells = _shrink(cells, step)
        names = [f"{names[i]:.{label - len(DOTS)}}{DOTS}" for i in range(0, len(names), step)]
    known = cells[~np.isnan(cells)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    what, show = (_rtt(scan), seconds_text) if map_.grouped_by == "rtt" else ("goodput", _goodput)
    # On a log scale that one far link cannot stretch: what lies above its end is the darkest all the same.
    top = max(quantile(known, 0.95), low) if known.size else 0.0
    least = 1e-9 if map_.grouped_by == "rtt" else 1e-15
    thresholds = np.geomspace(max(low, least), max(top, low, least) * (1 + 1e-9), 6)[1:-1]
    # A cell is its shade's number, -1 where nothing was read, -2 on the diagonal.
    marks = np.where(np.isnan(cells), -1, np.searchsorted(thresholds, cells))
    if step == 1:
        np.fill_diagonal(marks, -2)
    lines = []
    for name, row in zip(names, marks.tolist()):
        line = Text((name if len(name) <= label else name[: label - len(DOTS)] + DOTS).ljust(label) + "  ")
        for mark, run in itertools.groupby(row):
            line.append(*_cells(mark, len(list(run)), shades, gap))
        lines.append(line)
    legend = Text(f"{what} from {show(low)} ", style="dim")
    for shade, colour in zip(shades, _COLOURS):
        legend.append(shade * 2, style=colour)
    legend.append(f" to {show(high)}; {gap}{gap} no reading", style="dim")
    if step > 1:
        legend.append(f"; each cell is the median of {step} x {step} links", style="dim")
    return Lines(*lines, legend)


def _room(width: int, label: int) -> int:
    """How many cells a row has besides its name."""
    return max(8, (width - label - 3) // 2)


def _rtt(scan: Scan) -> str:
    """An imported number for a link is one of which nobody knows what statistic it is."""
    first = next((one for one in scan.measurements if one.key == "rtt_s"), None)
    return "RTT" if first is not None and first.parameters.get("readings_per_link") == 1 else "RTT p10"


def _measured(scan: Scan, map_: Map) -> FloatMatrix:
    """(N, N) of the scan: seconds of a round trip, or seconds per byte; NaN where missing."""
    beta = map_.layers.beta
    if map_.grouped_by == "rtt" or beta is None:
        return np.asarray(scan.rtt_s.p10)
    goodput = np.array(scan.goodput_bytes_per_s[str(beta.parameters["measurement"])])
    goodput[goodput == 0] = np.nan
    return np.asarray(1.0 / goodput)


def _goodput(s_per_byte: float | None) -> str:
    return "-" if not s_per_byte else rate_text(1.0 / s_per_byte)


def _shrink(cells: FloatMatrix, step: int) -> FloatMatrix:
    """The median of each block of ``step`` x ``step`` cells, NaN where none of them is known."""
    size = -(-len(cells) // step)
    padded = np.full((size * step, size * step), np.nan)
    padded[: len(cells), : len(cells)] = cells
    blocks = padded.reshape(size, step, size, step).swapaxes(1, 2).reshape(size * size, -1)
    return row_medians(blocks, none=np.nan).reshape(size, size)


def _marks(encoding: str) -> tuple[str, str]:
    try:
        (SHADES + MISSING).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII_SHADES, ASCII_MISSING
    return SHADES, MISSING


def _cells(mark: int, count: int, shades: str, gap: str) -> tuple[str, str]:
    """``count`` like cells in a row: their characters, and the style of these."""
    if mark < 0:
        return ("\\ " if mark == -2 else gap * 2) * count, "dim"
    return shades[mark] * 2 * count, _COLOURS[mark]


GROUPS_SHOWN = 64
RANKS_SHOWN = 64


def group_table(map_: Map) -> Table:
    """One row per group: its hosts, its leader, and how near they are (or what goodput they have)."""
    distance = (map_.distance + map_.distance.T) / 2
    show = seconds_text if map_.grouped_by == "rtt" else _goodput
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    placed = [index[name] for group in map_.groups for name in group.hosts]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("group")
    table.add_column("size", justify="right")
    table.add_column("inside", justify="right")
    table.add_column("across", justify="right")
    table.add_column("leader", overflow="fold")
    table.add_column("hosts", overflow="fold")
    for group in map_.groups[:GROUPS_SHOWN]:
        inside = [index[name] for name in group.hosts]
        members = set(inside)
        across = [i for i in placed if i not in members]
        pairs = distance[np.ix_(inside, inside)][np.triu_indices(len(inside), 1)]
        between = distance[np.ix_(inside, across)]
        table.add_row(
            group.id,
            str(len(inside)),
            show(median(pairs) if pairs.size else None),
            show(median(between) if between.size else None),
            group.leader,
            fold_names(group.hosts),
        )
    if len(map_.groups) > GROUPS_SHOWN:
        more = map_.groups[GROUPS_SHOWN:]
        names = [name for group in more for name in group.hosts]
        what = f"{len(more)} more groups, all in the map"
        table.add_row("..", str(len(names)), "-", "-", what, fold_names(names))
    if map_.unplaced:
        table.add_row("none", str(len(map_.unplaced)), "-", "-", "-", fold_names(map_.unplaced))
    return table


def fold_names(names: Sequence[str], most: int = 16) -> str:
    """Names on a line, the tail of a long list counted; the document has them all."""
    more = f" .. and {len(names) - most} more" if len(names) > most else ""
    return " ".join(names[:most]) + more


def order_text(plan: OrderPlan, *, detail: bool = True) -> str:
    """The order, its cost and what to do; with ``detail`` what it was compared with, and how far from the bound."""
    what = _what_is_priced(plan)
    gain = plan.cost_given_s / plan.cost_s if plan.cost_s else 1.0
    line = f"{what}: {seconds_text(plan.cost_given_s)} in the original order, {seconds_text(plan.cost_s)} in this one"
    if plan.kept_given is not None:
        line = f"your order is kept: {plan.kept_given} ({what}: {seconds_text(plan.cost_s)})"
    elif gain > 1.0005:
        line += f" ({gain:.2f}x)"
    elif plan.solver is not None and plan.solver.kind != "given" and plan.held_out and plan.held_out.folds:
        line += ": equal on the map"
    else:
        line += ": your order is already as good"
    if plan.crossings is not None and plan.crossings_given is not None:
        line += f"; ring hops between groups: {plan.crossings_given} before, {plan.crossings} after"
    rest = f" (all {len(plan.order)} in the plan)" if len(plan.order) > RANKS_SHOWN else ""
    lines = [
        f"order, rank 0 first: {fold_names(plan.order, RANKS_SHOWN)}{rest}",
        line,
        *(_compared(plan) if detail else []),
        *_advice(plan),
    ]
    if plan.left_out:
        lines.append(f"left out, since they are not placed on the map: {fold_names(plan.left_out)}")
    return "\n".join(lines)


def _what_is_priced(plan: OrderPlan) -> str:
    what = f"cost of {plan.algorithm}"
    if plan.algorithm == "ring":
        ring = "sum of one-way times round the ring", "slowest hop of the ring"
        what = ring[0] if plan.objective == "sum" else ring[1]
    if plan.size_bytes is not None:
        what += f", for {plan.size_bytes / 1e6:g} MB{' a hop' if plan.algorithm == 'ring' else ''} by goodput"
    return what


def _compared(plan: OrderPlan) -> list[str]:
    """The figures that an order was compared with, as far as the plan has them."""
    lines = []
    if plan.cost_random is not None and plan.lower_bound_s is not None:
        spread = plan.cost_random
        bound = seconds_text(plan.lower_bound_s)
        mean, least = seconds_text(spread.mean_s), seconds_text(spread.least_s)
        line = f"{spread.orders:,} random orders: mean {mean}, the best of them {least}"
        if plan.cost_worst_s is not None:
            line += f"; most expensive found: {seconds_text(plan.cost_worst_s)}"
        if plan.gap is not None and plan.gap < PROVEN:
            lines.append(f"{line}; this order is a best one by the map: proved")
        else:
            gap = "" if plan.gap is None else f" (gap {plan.gap:.1%})"
            lines.append(f"{line}; no order is below {bound}{gap}")
    held = plan.held_out
    if held is not None and held.cost_s is not None:
        given, leaf = seconds_text(held.cost_given_s), seconds_text(held.cost_leaf_s)
        lines.append(
            f"on readings held out: {given} in the original order, {leaf} in leaf order (groups in a row), "
            f"{seconds_text(held.cost_s)} in this kind of order"
        )
    elif held is not None:
        lines.append(f"on readings held out: {held.text}")
    return lines


def _advice(plan: OrderPlan) -> list[str]:
    if plan.advice is None or plan.kept_given is not None:
        return []
    return [f"{plan.advice}; costs are of {'latency' if plan.size_bytes is None else 'time by goodput'}"]


def unplaced_text(map_: Map) -> list[str]:
    """A line that names the hosts without a place, if any."""
    if not map_.unplaced:
        return []
    rest = count(len(map_.hosts) - len(map_.unplaced), "host")
    return [f"not placed, since no measured link ties them to the other {rest}: {fold_names(map_.unplaced)}"]


def scan_text(scan: Scan) -> str:
    """One line on what was measured, and what is missing of it (``report.missing``)."""
    cells = int((~np.isnan(np.asarray(scan.rtt_s.p10))).sum() - _diagonal(scan.rtt_s.p10))
    links = len(scan.hosts) * (len(scan.hosts) - 1)
    levels = sorted(scan.visits.distinct("stamps"))
    text = f"{count(len(scan.hosts), 'host')}, {cells} of {count(links, 'link')}"
    imported = any(m.method == "imported" for m in scan.measurements[:1])
    text += ", imported" if imported else f" in {scan.duration_s:.1f} s"
    methods = [m.method for m in scan.measurements[:1] if m.method not in ("stamp", "imported")]
    text += f", by {methods[0]}" if methods else ""
    text += f", stamps: {', '.join(levels)}" if levels else ""
    return "\n".join([text, *missing_lines(scan)])


def _diagonal(matrix: FloatMatrix) -> int:
    return int((~np.isnan(np.diagonal(matrix))).sum())
