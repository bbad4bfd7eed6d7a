"""The text of matrices in JSON: what Python's own encoder writes, a matrix at a time.

A number of nine significant digits is written with just these, for no shorter decimal is the same double. So the digits
are taken apart with whole-number arithmetic on all cells at once, which is ten times as quick as a call a cell.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

SIGNIFICANT_DIGITS = 9
# Powers of ten that a double holds exactly.
EXACT_POWERS = 22
POWERS = np.array([float(10**power) for power in range(EXACT_POWERS + 1)])
# Below this power of ten Python writes an exponent.
_LEAST_PLAIN = -4
# No number of nine digits takes more characters: "-1000000000000000.0" takes one less.
_WIDTH = 20
_ZERO, _POINT = ord("0"), ord(".")


class RowTexts(list[str]):
    """The rows of a matrix in a document that is being written, each the JSON text of its cells."""


def row_texts(array: NDArray[np.float64], separator: str) -> RowTexts:
    """The cells of each row of (N, M) as JSON, joined by ``separator``; NaN is null. N and M of at least 1.

    The numbers must be finite and have nine significant digits, as `matrix.rounded` leaves them.
    """
    flat = np.ascontiguousarray(array, dtype=np.float64).ravel()
    cells = np.zeros((len(flat), _WIDTH + len(separator)), dtype=np.uint8)
    cells[:, _WIDTH:] = np.frombuffer(separator.encode(), dtype=np.uint8)
    last = np.arange(array.shape[1] - 1, len(flat), array.shape[1])
    cells[last, _WIDTH:] = 0
    cells[last, _WIDTH] = ord("\n")
    missing = np.isnan(flat)
    cells[missing, :4] = np.frombuffer(b"null", dtype=np.uint8)
    nothing = (flat == 0.0) & ~np.signbit(flat)
    cells[nothing, :3] = np.frombuffer(b"0.0", dtype=np.uint8)
    usual = _write_usual(flat, cells)
    for place in np.flatnonzero(~(usual | missing | nothing)).tolist():
        text = json.dumps(float(flat[place]), allow_nan=False).encode()
        cells[place, : len(text)] = np.frombuffer(text, dtype=np.uint8)
    written = cells.ravel()
    return RowTexts(written[written != 0].tobytes().decode().split("\n")[:-1])


def _write_usual(flat: NDArray[np.float64], cells: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Write the positive numbers from 1e-14 to 1e9 into their rows of ``cells``; (M,) which these are."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(flat))
        usual = (flat > 0) & (power >= 0) & (power <= EXACT_POWERS)
        tens = POWERS[np.where(usual, power, 0).astype(np.intp)]
        whole = np.rint(flat * tens)
        # The logarithm may round to the next power of ten.
        usual &= (
            (whole >= 10 ** (SIGNIFICANT_DIGITS - 1))
            & (whole < 10**SIGNIFICANT_DIGITS)
            & (whole / tens == flat)
        )
    exponent = np.where(usual, SIGNIFICANT_DIGITS - 1 - power, 0).astype(np.int64)
    for one in np.unique(exponent[usual]).tolist():
        rows = np.flatnonzero(usual & (exponent == one))
        cells[rows, :_WIDTH] = _written(whole[rows].astype(np.int32), one)
    return usual


def _written(whole: NDArray[np.int32], exponent: int) -> NDArray[np.uint8]:
    """(M, width) the texts of ``whole``, nine digits each, times a power of ten: the first digit's is ``exponent``.

    Where nothing is to be written there is a zero.
    """
    digits = np.empty((len(whole), SIGNIFICANT_DIGITS), dtype=np.uint8)
    for place in range(SIGNIFICANT_DIGITS - 1, -1, -1):
        rest = whole // 10
        digits[:, place] = whole - 10 * rest
        whole = rest
    count = SIGNIFICANT_DIGITS - (digits[:, ::-1] != 0).argmax(axis=1)
    # A plain number has a digit behind its point at least.
    least = exponent + 2 if exponent >= 0 else 1
    kept = np.arange(SIGNIFICANT_DIGITS) < np.maximum(count, least)[:, None]
    digits = np.where(kept, digits + _ZERO, 0).astype(np.uint8)
    text = np.zeros((len(whole), _WIDTH), dtype=np.uint8)
    if exponent >= 0:
        text[:, : exponent + 1] = digits[:, : exponent + 1]
        text[:, exponent + 1] = _POINT
        text[:, exponent + 2 : SIGNIFICANT_DIGITS + 1] = digits[:, exponent + 1 :]
        if exponent == SIGNIFICANT_DIGITS - 1:
            text[:, SIGNIFICANT_DIGITS + 1] = _ZERO
    elif exponent >= _LEAST_PLAIN:
        before = b"0." + b"0" * (-exponent - 1)
        text[:, : len(before)] = np.frombuffer(before, dtype=np.uint8)
        text[:, len(before) : len(before) + SIGNIFICANT_DIGITS] = digits
    else:
        text[:, 0] = digits[:, 0]
        text[:, 1] = np.where(count > 1, _POINT, 0)
        text[:, 2 : SIGNIFICANT_DIGITS + 1] = digits[:, 1:]
        after = f"e-{-exponent:02d}".encode()
        text[:, SIGNIFICANT_DIGITS + 1 : SIGNIFICANT_DIGITS + 1 + len(after)] = np.frombuffer(
            after, dtype=np.uint8
        )
    return text
