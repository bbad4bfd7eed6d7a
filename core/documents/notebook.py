"""A document as HTML for a notebook: its figures, its tables, and its matrix as a heat map in inline SVG.

Numbers and texts in, text out. Every name is escaped: a host may be called anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.numeric.medians import quantile, row_medians
from netprobe.core.text import one_line

MOST_CELLS = 64
"""Cells a side; a larger matrix shows the median of each block."""
_SHADES = ("#1a9850", "#a6d96a", "#fee08b", "#f46d43", "#a50026")
_MISSING = "#d9d9d9"
_CELL, _LABEL, _FONT = 12, 150, 10
_NAME = 24


def document_html(title: str, *parts: str) -> str:
    """A heading, and what comes below it."""
    return f"<div><p><b>{_text(title, 200)}</b></p>{''.join(parts)}</div>"


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]], *, most: int = 64) -> str:
    """A table of texts; of a long one the first rows, and how many there are besides."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_text(cell, 400)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows[:most])
    more = f"<p>.. and {len(rows) - most} more</p>" if len(rows) > most else ""
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>{more}"


def heat_map_svg(
    names: Sequence[str], cells: FloatMatrix, *, unit_text: Callable[[float], str], what: str
) -> str:
    """``cells`` [src, dst], the farther the redder; grey where nothing was read.

    names: of the rows and columns, in order. ``unit_text`` writes a value. Shades are on a log scale whose end is the
    95th percentile, so that one far link cannot stretch it.
    """
    cells = np.array(cells, dtype=np.float64)
    np.fill_diagonal(cells, np.nan)
    step = -(-max(len(names), 1) // MOST_CELLS)
    if step > 1:
        cells, names = _blocks(cells, step), [f"{name}.." for name in names[::step]]
    known = cells[np.isfinite(cells) & (cells > 0)]
    if not known.size:
        return "<p>no link has a reading</p>"
    low, high = float(known.min()), float(known.max())
    top = max(quantile(known, 0.95), low)
    steps = np.geomspace(low, top * (1 + 1e-9), len(_SHADES) + 1)[1:-1]
    shade = np.searchsorted(steps, np.nan_to_num(cells))
    size = len(names)
    drawn = []
    for row, name in enumerate(names):
        top_px = row * _CELL
        drawn.append(
            f'<text x="{_LABEL - 4}" y="{top_px + _FONT}" text-anchor="end">{_text(name, _NAME)}</text>'
        )
        for column, other in enumerate(names):
            if row == column and step == 1:
                continue
            value = float(cells[row, column])
            there = value == value
            colour = _SHADES[int(shade[row, column])] if there else _MISSING
            drawn.append(
                f'<rect x="{_LABEL + column * _CELL}" y="{top_px}" width="{_CELL}" height="{_CELL}" fill="{colour}">'
                f"<title>{_text(name, _NAME)} to {_text(other, _NAME)}: "
                f"{_text(unit_text(value), 40) if there else 'no reading'}</title></rect>"
            )
    blocks = f"; each cell is the median of {step} x {step} links" if step > 1 else ""
    legend = f"{what} from {unit_text(low)} (green) to {unit_text(high)} (red); grey: no reading{blocks}"
    side = size * _CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_LABEL + side}" height="{side}" '
        f'font-family="monospace" font-size="{_FONT}" fill="currentColor">{"".join(drawn)}</svg>'
        f"<p>{_text(legend, 200)}</p>"
    )


def _blocks(cells: FloatMatrix, step: int) -> FloatMatrix:
    """The median of each block of ``step`` x ``step`` cells, NaN where none of them is known."""
    size = -(-len(cells) // step)
    padded = np.full((size * step, size * step), np.nan)
    padded[: len(cells), : len(cells)] = cells
    blocks = padded.reshape(size, step, size, step).swapaxes(1, 2).reshape(size * size, -1)
    return row_medians(blocks, none=np.nan).reshape(size, size)


def _text(text: str, most: int) -> str:
    return escape(one_line(text, most))
