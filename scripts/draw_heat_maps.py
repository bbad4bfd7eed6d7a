"""Draw a scan as two heat maps: hosts in their original order, and in the plan's order.

    scripts/draw_heat_maps.py demo-out docs/heat-maps.svg

The folder is the --out of ``netprobe scan``: scan.json and plan.json are read from it. A cell is the round-trip
time that the host of its row measured to the host of its column; a frame marks each hop of the ring of ranks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

CELL = 18
LEFT, TOP = 64, 62
PANEL = 432
FOOT = 56
SHADES = ("#deebf7", "#c3daee", "#9fc7e2", "#74b0d8", "#4a97c9", "#2b7bba", "#1661a4", "#08407f")
"""Near to far: one hue, from light to dark."""
MISSING = "#dddddd"
FRAME = "#d95f02"
INK = "#222222"


def shades_of(rtt_s: list[list[float | None]], least: float, most: float) -> list[list[str]]:
    """The colour of each cell, from the times ``[src][dst]`` and their range."""
    width = (most - least) / len(SHADES) or 1.0

    def shade(value: float | None) -> str:
        if value is None:
            return MISSING
        return SHADES[min(int((value - least) / width), len(SHADES) - 1)]

    return [[shade(value) for value in row] for row in rtt_s]


def panel(shades: list[list[str]], names: Sequence[str], order: Sequence[int], title: str, note: str) -> str:
    """One heat map: ``order[k]`` is the host of row and column k."""
    size = len(order) * CELL
    squares: dict[str, list[str]] = {}
    for row, src in enumerate(order):
        for column, dst in enumerate(order):
            if src != dst:
                corner = f"M{LEFT + column * CELL} {TOP + row * CELL}"
                squares.setdefault(shades[src][dst], []).append(f"{corner}h{CELL - 1}v{CELL - 1}h{1 - CELL}z")
    hops = [
        f"M{LEFT + (row + 1) % len(order) * CELL + 0.5} {TOP + row * CELL + 0.5}h{CELL - 2}v{CELL - 2}h{2 - CELL}z"
        for row in range(len(order))
    ]
    return "\n".join(
        [
            f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{title}</text>',
            f'<text x="{LEFT}" y="44">{note}</text>',
            *(f'<path fill="{colour}" d="{"".join(cells)}"/>' for colour, cells in sorted(squares.items())),
            f'<path fill="none" stroke="{FRAME}" stroke-width="2" d="{"".join(hops)}"/>',
            f'<g text-anchor="end" font-family="monospace" font-size="11">{labels(names, order)}</g>',
            f'<rect x="{LEFT}" y="{TOP}" width="{size}" height="{size}" fill="none" stroke="#bbbbbb"/>',
        ]
    )


def labels(names: Sequence[str], order: Sequence[int]) -> str:
    """The host's name before each row."""
    return "".join(
        f'<text x="{LEFT - 6}" y="{TOP + row * CELL + 13}">{names[host]}</text>'
        for row, host in enumerate(order)
    )


def legend(least: float, most: float, statistic: str, top: int) -> str:
    """What the shades and the frames mean."""
    boxes = [
        f'<rect x="{LEFT + 54 + 16 * k}" y="{top}" width="16" height="12" fill="{colour}"/>'
        for k, colour in enumerate(SHADES)
    ]
    end = LEFT + 54 + 16 * len(SHADES)
    return "\n".join(
        [
            f'<text x="{LEFT + 48}" y="{top + 11}" text-anchor="end">{least * 1e6:.0f} us</text>',
            *boxes,
            f'<text x="{end + 8}" y="{top + 11}">{most * 1e6:.0f} us: round-trip time ({statistic})</text>',
            f'<rect x="{PANEL + LEFT + 1}" y="{top}" width="12" height="12" fill="none" stroke="{FRAME}" '
            'stroke-width="2"/>',
            f'<text x="{PANEL + LEFT + 22}" y="{top + 11}">a hop of the ring: rank r to rank r + 1</text>',
        ]
    )


def draw(folder: Path) -> str:
    """The SVG of one scan and its plan."""
    scan = json.loads((folder / "scan.json").read_text(encoding="utf-8"))
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    names = [host["name"] for host in scan["hosts"]]
    statistic = scan["measurements"][0]["statistic"]
    rtt_s = scan["rtt_s"][statistic]
    read = [value for row in rtt_s for value in row if value is not None]
    least, most = min(read), max(read)
    shades = shades_of(rtt_s, least, most)
    order = [names.index(name) for name in plan["order"]]

    def note(cost_s: float, crossings: int) -> str:
        return f"{cost_s * 1e3:.2f} ms round the ring, {crossings} of {len(order)} hops between groups"

    before, after = (
        note(plan["cost_given_s"], plan["crossings_given"]),
        note(plan["cost_s"], plan["crossings"]),
    )
    height = TOP + len(names) * CELL + FOOT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * PANEL} {height}" width="{2 * PANEL}" '
            f'height="{height}" font-family="sans-serif" font-size="13" fill="{INK}">',
            f"<title>Round-trip times of {len(names)} hosts, before and after ordering</title>",
            f'<rect width="{2 * PANEL}" height="{height}" fill="#ffffff"/>',
            panel(shades, names, range(len(names)), "Original order", before),
            f'<g transform="translate({PANEL} 0)">',
            panel(shades, names, order, "netprobe's order", after),
            "</g>",
            legend(least, most, statistic, height - 32),
            "</svg>",
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what netprobe scan wrote")
    parser.add_argument("out", type=Path, help="the SVG to write")
    asked = parser.parse_args()
    asked.out.write_text(draw(asked.folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
