"""Links in a terminal or as CSV, and the tree of a map's groups."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from netprobe.core.documents.map import Map
from netprobe.core.numeric.medians import median
from netprobe.core.units import rate_text, seconds_text
from netprobe.report.terminal import fold_names

ROWS_SHOWN = 40
_HEADER = (
    "src", "dst", "rtt_s", "rtt_p99_s", "loss_ratio", "goodput_bytes_per_s", "distance_s", "groups",
)  # fmt: skip


def link_table(rows: Sequence[Any], *, most: int | None = ROWS_SHOWN) -> Table:
    """``most`` rows of links (attributes of `_HEADER`), those with columns that no row fills left out."""
    shown = rows if most is None else rows[:most]
    texts: dict[str, tuple[str, Callable[[Any], str]]] = {
        "rtt_s": ("RTT p10", seconds_text),
        "rtt_p99_s": ("p99", seconds_text),
        "loss_ratio": ("loss", lambda value: "-" if value is None else f"{value:.1%}"),
        "goodput_bytes_per_s": ("goodput", lambda value: "-" if value is None else rate_text(value)),
        "distance_s": ("denoised", seconds_text),
        "groups": ("groups", str),
    }
    keys = [key for key in texts if any(getattr(row, key) not in (None, "") for row in shown)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("from", overflow="fold")
    table.add_column("to", overflow="fold")
    for key in keys:
        table.add_column(texts[key][0], justify="left" if key == "groups" else "right")
    for row in shown:
        table.add_row(row.src, row.dst, *(texts[key][1](getattr(row, key)) for key in keys))
    return table


def links_csv(rows: Sequence[Any]) -> str:
    """All of them, SI units in the names of the columns, a missing value empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    for row in rows:
        values = [getattr(row, key) for key in _HEADER]
        writer.writerow(
            "" if value is None else f"{value:.9g}" if isinstance(value, float) else value for value in values
        )
    return text.getvalue()


def tree_lines(map_: Map) -> list[str]:
    """The dendrogram of the groups: what is joined lowest is nearest, by the mean distance of their hosts.

    A leaf is a group with the median distance inside it; the number at a fork is the distance between its sides.
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    show = seconds_text if map_.grouped_by == "rtt" else _goodput
    index = {host.name: i for i, host in enumerate(map_.hosts)}
    distance = np.asarray((map_.distance + map_.distance.T) / 2)
    members = [[index[name] for name in group.hosts] for group in map_.groups]
    leaves = []
    for group, inside in zip(map_.groups, members):
        pairs = distance[np.ix_(inside, inside)][np.triu_indices(len(inside), 1)]
        near = f", {show(median(pairs))} inside" if pairs.size else ""
        leaves.append(f"{group.id} ({len(inside)}{near}): {fold_names(group.hosts, 8)}")
    if len(members) < 2:
        return leaves
    between = np.array([[float(distance[np.ix_(a, b)].mean()) for b in members] for a in members])
    np.fill_diagonal(between, 0.0)
    joins = linkage(squareform(between, checks=False), "average")

    lines: list[str] = []
    size = len(members)
    stack: list[tuple[int, str, str]] = [(size + len(joins) - 1, "", "")]
    while stack:
        node, first, rest = stack.pop()
        if node < size:
            lines.append(first + leaves[node])
            continue
        left, right, height = joins[node - size][:3]
        lines.append(f"{first}{show(float(height))}")
        stack.append((int(right), f"{rest}└─ ", f"{rest}   "))
        stack.append((int(left), f"{rest}├─ ", f"{rest}│  "))
    return lines


def _goodput(s_per_byte: float | None) -> str:
    return "-" if not s_per_byte else rate_text(1.0 / s_per_byte)
