"""A verified order in a terminal: one row per order, the speed-up, and what to know of it."""

from __future__ import annotations

import math
import statistics

from rich.console import RenderableType
from rich.table import Table

from netprobe.core.documents.verify import RankCorrelation, Verify
from netprobe.core.text import one_line
from netprobe.core.units import count, seconds_text, size_text
from netprobe.report.headline import in_words, is_wide

ROWS_SHOWN = 40
_WORDS = {
    "faster": "the plan's order is faster",
    "slower": "the plan's order is slower",
    "same": "no difference within the precision",
    "cannot_tell": "cannot tell: the interval contains 1",
}


def order_table(result: Verify) -> Table:
    """Each order: how often it ran, its median time and the spread, and what was predicted."""
    predicted = any(one.predicted_s is not None for one in result.orders)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (
        "order",
        "runs",
        "median",
        "fastest",
        "slowest",
        *(["predicted" if _by_capacity(result) else "predicted cost"] if predicted else []),
    ):
        table.add_column(column, justify="left" if column == "order" else "right")
    for number, one in enumerate(result.orders[:ROWS_SHOWN]):
        times = [run.seconds for run in result.repetitions if run.order == number and run.part != "warm_up"]
        cells = (
            [seconds_text(statistics.median(times)), seconds_text(min(times)), seconds_text(max(times))]
            if times
            else ["-"] * 3
        )
        cost = [seconds_text(one.predicted_s)] if predicted else []
        table.add_row(_row_name(one.name), str(len(times)), *cells, *cost)
    return table


def _row_name(name: str) -> str:
    """``original`` for what documents call ``given``."""
    return "original".join(name.rsplit("given", 1)) if name.split(", ")[-1] == "given" else name


def verify_text(result: Verify) -> str:
    """The speed-up with its interval, what was predicted, and how it was found out."""
    found = result.comparison
    against = f"against {in_words(found.against)}"
    lines = []
    if result.repetitions and found.ratio is not None:
        interval = "" if found.low is None else f" (95 %: {found.low:.2f} to {found.high:.2f})"
        lines.append(f"speed-up {against}: {found.ratio:.2f}x{interval}: {_WORDS[found.verdict]}")
        if found.verdict in ("faster", "slower") and is_wide(result):
            lines.append(
                "the interval is wider than 25 % to one side, so this is no proof yet: give more --time, or a smaller "
                "--size for more runs"
            )
    if found.predicted_ratio is not None and _by_capacity(result):
        latency = "" if _by(result).get("latency") is True else "; latency is not in it (give --map too)"
        if _overlap(result):
            latency += "; the intervals of the two times overlap, so it may be either"
        lines.append(
            f"predicted by the measured capacities of hosts and uplinks: {found.predicted_ratio:.2f}x{latency}"
        )
    elif found.predicted_ratio is not None:
        lines.append(
            f"predicted by the plan's cost of a {_cost(result)}: {found.predicted_ratio:.2f}x; how flows share the "
            "rate of a link is not in it"
        )
    if result.repetitions:
        runs = len(result.repetitions)
        ran = (
            result.ran
            if result.ran == result.algorithm
            else f"{result.ran} (how libraries run a {result.algorithm})"
        )
        line = f"{ran} of {size_text(result.size_bytes)} on {count(len(result.orders[0].order), 'host')}"
        if result.sent_bytes is not None:
            line += f", {size_text(result.sent_bytes)} sent a run"
        if result.method != "tcp":
            line += f", by {one_line(str(result.parameters.get('library', result.method)), 60)}"
        warm_ups = sum(run.part == "warm_up" for run in result.repetitions)
        line += f"; {count(runs, 'run')} ({warm_ups} to warm up) in {result.duration_s:.0f} s"
        if result.proved:
            line += f", {result.proved} proved: each host's contribution once in every chunk"
        lines.append(line)
        full = result.parameters.get("full_size_bytes")
        if isinstance(full, int):
            lines.append(
                f"of {size_text(full)} fewer than six runs of each order fit in the time, so it was "
                f"{size_text(result.size_bytes)} (--size keeps a size, --time gives it longer)"
            )
    if result.reason is not None:
        lines.append(result.reason)
    return "\n".join(lines + [f"warning: {text}" for text in result.warnings])


def _overlap(result: Verify) -> bool:
    """Whether what is known of the capacities leaves open which of the plan and its baseline is faster."""
    own, *others = result.orders
    base = [one for one in others if one.predicted_low_s is not None][:1]
    if own.predicted_low_s is None or result.comparison.against == "random":
        return False
    return any(
        own.predicted_low_s <= _end(one.predicted_high_s)
        and (one.predicted_low_s or 0) <= _end(own.predicted_high_s)
        for one in base
    )


def _end(high_s: float | None) -> float:
    """Without an upper end a time may be anything."""
    return math.inf if high_s is None else high_s


def _by_capacity(result: Verify) -> bool:
    return _by(result).get("capacity") is True


def _by(result: Verify) -> dict[str, object]:
    by = result.parameters.get("predicted_by")
    return by if isinstance(by, dict) else {}


def _cost(result: Verify) -> str:
    """``ring (the sum of its hops, latency alone)``: what was predicted, which is seldom the program that ran."""
    by = result.parameters.get("predicted_by")
    by = by if isinstance(by, dict) else {}
    hops = "the largest of its hops" if by.get("objective") == "bottleneck" else "the sum of its hops"
    priced = by.get("size_bytes")
    what = f"{size_text(priced)} by latency and goodput" if isinstance(priced, int) else "latency alone"
    return (
        f"{result.algorithm} ({hops}, {what})"
        if result.algorithm == "ring"
        else f"{result.algorithm} ({what})"
    )


def correlation_text(found: RankCorrelation) -> str:
    """Prediction against measurement."""
    if found.tau_b is None or found.ceiling is None:
        return f"{count(found.orders, 'order')}: too few that differ to say whether the prediction is right"
    return (
        f"predicted against measured over {count(found.orders, 'order')}: Kendall's tau-b {found.tau_b:.2f} "
        f"(at most {found.ceiling:.2f}, for ties), Spearman's coefficient {found.spearman or 0.0:.2f}"
    )


def verify_parts(result: Verify) -> list[RenderableType]:
    """The table of orders where something ran, the text, and how well the prediction fits."""
    parts: list[RenderableType] = [order_table(result), ""] if result.repetitions else []
    parts.append(verify_text(result))
    return parts if result.correlation is None else [*parts, correlation_text(result.correlation)]
