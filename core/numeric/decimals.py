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
    # A row of these is one character of all cells; zero where there is none.
    cells = np.zeros((_WIDTH + len(separator), len(flat)), dtype=np.uint8)
    cells[_WIDTH:] = np.frombuffer(separator.encode(), dtype=np.uint8)[:, None]
    last = np.arange(array.shape[1] - 1, len(flat), array.shape[1])
    cells[_WIDTH:, last] = 0
    cells[_WIDTH, last] = ord("\n")
    missing = np.isnan(flat)
    nothing = (flat == 0.0) & ~np.signbit(flat)
    for which, text in ((missing, b"null"), (nothing, b"0.0")):
        places = np.flatnonzero(which)
        for at, character in enumerate(text):
            cells[at, places] = character
    usual = _write_usual(flat, cells)
    for place in np.flatnonzero(~(usual | missing | nothing)).tolist():
        text = json.dumps(float(flat[place]), allow_nan=False).encode()
        cells[: len(text), place] = np.frombuffer(text, dtype=np.uint8)
    return RowTexts(cells.T.tobytes().translate(None, b"\0").decode().split("\n")[:-1])


def _write_usual(flat: NDArray[np.float64], cells: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Write the positive numbers from 1e-14 to 1e9 into their columns of ``cells``; (M,) which these are."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        power = SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(flat))
        usual = (flat > 0) & (power >= 0) & (power <= EXACT_POWERS)
        power = np.where(usual, power, 0).astype(np.intp)
        tens = POWERS[power]
        whole = np.rint(flat * tens)
        # The logarithm may round to the next power of ten.
        usual &= (
            (whole >= 10 ** (SIGNIFICANT_DIGITS - 1))
            & (whole < 10**SIGNIFICANT_DIGITS)
            & (whole / tens == flat)
        )
    for one in np.flatnonzero(np.bincount(power, usual)).tolist():
        places = np.flatnonzero(usual & (power == one))
        characters = _written(whole[places].astype(np.int32), SIGNIFICANT_DIGITS - 1 - one)
        for at, character in enumerate(characters):
            cells[at, places] = character
    return usual


def _written(whole: NDArray[np.int32], exponent: int) -> list[NDArray[np.uint8] | int]:
    """The texts of M ``whole`` numbers, nine digits each, times a power of ten: the first digit's is ``exponent``.

    Character by character, each (M,) or the same in all; where nothing is to be written there is a zero.
    """
    digits: list[NDArray[np.uint8] | int] = []
    # A plain number has a digit behind its point at least; zeros at the end of what is behind it are not written.
    fewest = exponent + 2 if exponent >= 0 else 1
    kept = np.zeros(len(whole), dtype=np.bool_)
    for place in range(SIGNIFICANT_DIGITS - 1, -1, -1):
        rest = whole // 10
        digit = (whole - 10 * rest).astype(np.uint8)
        kept |= digit != 0
        digit += _ZERO
        if place == 1:
            point = np.where(kept, np.uint8(_POINT), np.uint8(0))
        digits.append(digit if place < fewest else digit * kept)
        whole = rest
    digits.reverse()
    if exponent >= 0:
        behind = digits[exponent + 1 :] or [_ZERO]
        return [*digits[: exponent + 1], _POINT, *behind]
    if exponent >= _LEAST_PLAIN:
        return [*(b"0." + b"0" * (-exponent - 1)), *digits]
    return [digits[0], point, *digits[1:], *f"e-{-exponent:02d}".encode()]
