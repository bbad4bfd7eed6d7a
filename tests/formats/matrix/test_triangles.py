"""Tables of which only half was printed are made whole, and said to be."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.core.errors import InputError
from tests.formats.matrices import read, same

TRIANGLE = np.array([[0, 12.1, 55, 55.3], [12.1, 0, 54.1, 54], [55, 54.1, 0, 12], [55.3, 54, 12, 0]])
X = ("x1", "x2", "x3", "x4")


def triangle(*, lower: bool, diagonal: str | None, names: str, separator: str = " ") -> str:
    """A ragged triangle. names: ``left``, ``both`` or ``none``; diagonal: what is there, or None for nothing."""
    lines = []
    for i in range(4):
        others = range(i) if lower else range(i + 1, 4)
        cells = [str(TRIANGLE[i, j]) for j in others]
        if diagonal is not None:
            cells = [*cells, diagonal] if lower else [diagonal, *cells]
        lines.append(([] if names == "none" else [X[i]]) + cells)
    head = [["", *X]] if names == "both" and separator == "," else [list(X)] if names == "both" else []
    return "".join(separator.join(cells) + "\n" for cells in [*head, *lines] if cells)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("diagonal", [None, "0", "-", "0.0"])
@pytest.mark.parametrize("names", ["left", "both", "none"])
@pytest.mark.parametrize("separator", [" ", ","])
def test_a_ragged_triangle_is_both_directions_and_says_so(
    lower: bool, diagonal: str | None, names: str, separator: str
) -> None:
    found = read(triangle(lower=lower, diagonal=diagonal, names=names, separator=separator))
    assert found.names == (None if names == "none" else X)
    assert same(found.values, TRIANGLE)
    assert found.parameters["both_directions_alike"] is True and found.notes


def test_a_triangle_in_a_square_of_cells_is_the_same() -> None:
    rows = [
        [n, *(str(v) if j < i else "" for j, v in enumerate(row))]
        for i, (n, row) in enumerate(zip(X, TRIANGLE))
    ]
    found = read("\n".join(",".join(row) for row in [["", *X], *rows]))
    assert same(found.values, TRIANGLE) and found.notes
    rows[0][3] = "7"  # no longer a triangle: one direction of a pair is there, and others are missing
    assert np.isnan(read("\n".join(",".join(row) for row in [["", *X], *rows])).values).sum() == 4 + 5


@pytest.mark.parametrize(
    "text",
    [
        "x1 7\nx2 12 7\nx3 5 5 7\n",  # names of all, and no real diagonal
        "x1\nx2 12\nx3 5\n",
        "x1\nx2 12 3\nx3 5 5\n",
        "x2 12\nx3 5 5\n",  # who is the first?
    ],
)
def test_a_triangle_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"line|square"):
        read(text)
