"""A verified order in a terminal: a row an order, the speed-up, and what to know of it."""

from __future__ import annotations

import statistics

from rich.table import Table

from netprobe.core.text import one_line
from netprobe.core.verify import RankCorrelation, Verify
from netprobe.report.units import bytes_text, count, seconds

ROWS_SHOWN = 40
_WORDS = {
    "faster": "the plan's order is faster",
    "slower": "the plan's order is slower",
    "same": "equally fast",
    "cannot_tell": "cannot tell: the interval holds 1",
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
        *(["predicted cost"] if predicted else []),
    ):
        table.add_column(column, justify="left" if column == "order" else "right")
    for number, one in enumerate(result.orders[:ROWS_SHOWN]):
        times = [run.seconds for run in result.repetitions if run.order == number and run.part != "warm_up"]
        cells = (
            [seconds(statistics.median(times)), seconds(min(times)), seconds(max(times))]
            if times
            else ["-"] * 3
        )
        cost = [seconds(one.predicted_s)] if predicted else []
        table.add_row(one.name, str(len(times)), *cells, *cost)
    return table


def verify_text(result: Verify) -> str:
    """The speed-up with its interval, what was predicted, and how it was found out."""
    found = result.comparison
    against = f"against {found.against}" if found.against != "random" else "against random orders"
    lines = []
    if result.repetitions and found.ratio is not None:
        interval = "" if found.low is None else f" (95 %: {found.low:.2f} to {found.high:.2f})"
        words = _WORDS[found.verdict]
        precision = result.parameters.get("precision")
        if found.verdict == "same" and isinstance(precision, float):
            words += f", within {precision * 100:g} %"
        lines.append(f"speed-up {against}: {found.ratio:.2f}x{interval}: {words}")
    if found.predicted_ratio is not None:
        lines.append(_predicted_text(result, found.predicted_ratio))
    if result.repetitions:
        runs = len(result.repetitions)
        ran = (
            result.ran
            if result.ran == result.algorithm
            else f"{result.ran} (how libraries run a {result.algorithm})"
        )
        line = f"{ran} of {bytes_text(result.size_bytes)} on {count(len(result.orders[0].order), 'host')}"
        if result.sent_bytes is not None:
            line += f", {bytes_text(result.sent_bytes)} sent a run"
        if result.method != "tcp":
            line += f", by {one_line(str(result.parameters.get('library', result.method)), 60)}"
        warm = sum(run.part == "warm_up" for run in result.repetitions)
        among = f", {warm} of them to warm up," if warm else ""
        line += f"; {count(runs, 'run')}{among} in {result.duration_s:.0f} s"
        if result.proved:
            line += f", {result.proved} proved: each host's part once in every chunk"
        lines.append(line)
    if result.reason is not None:
        lines.append(result.reason)
    return "\n".join(lines + [f"warning: {text}" for text in result.warnings])


def _predicted_text(result: Verify, ratio: float) -> str:
    """The ratio of the plan's costs, and what they are of: seldom the program that ran."""
    by = result.parameters.get("predicted_by")
    by = by if isinstance(by, dict) else {}
    priced = by.get("size_bytes")
    a_message = f"a message of {bytes_text(priced)}" if isinstance(priced, int) else None
    what = "latency alone" if a_message is None else f"{a_message} by latency and goodput"
    if result.algorithm == "ring":
        which = "largest" if by.get("objective") == "bottleneck" else "sum"
        what = f"{which} of one-way times, {what}"
    return (
        f"predicted by the plan's cost ({result.algorithm}: {what}): {ratio:.2f}x; how flows share a link's rate is "
        "not in it"
    )


def correlation_text(found: RankCorrelation) -> str:
    """Prediction against measurement."""
    if found.tau_b is None or found.ceiling is None:
        return f"{count(found.orders, 'order')}: too few that differ to say whether the prediction is right"
    return (
        f"predicted against measured over {count(found.orders, 'order')}: Kendall's tau-b {found.tau_b:.2f} "
        f"(at most {found.ceiling:.2f}, for ties), Spearman's coefficient {found.spearman or 0.0:.2f}"
    )
