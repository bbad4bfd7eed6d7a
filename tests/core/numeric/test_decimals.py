"""The text of a matrix is what Python's own encoder writes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from netprobe.core.documents.matrix import rounded, to_rows
from netprobe.core.numeric.decimals import row_texts

ANY = st.floats(allow_infinity=False) | st.floats(1e-9, 1e3) | st.just(0.0)


def assert_as_python_writes_it(array: np.ndarray) -> None:
    array = rounded(array)
    for separator in (",", ", "):
        expected = [json.dumps(row, separators=(separator, ": "))[1:-1] for row in to_rows(array)]
        assert row_texts(array, separator) == expected


@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=ANY))
def test_any_matrix_is_written_as_python_writes_it(array: np.ndarray) -> None:
    assert_as_python_writes_it(array)


@pytest.mark.parametrize("digits", [1, 2, 5, 9])
def test_every_power_of_ten_is_written_as_python_writes_it(digits: int) -> None:
    random = np.random.default_rng(digits)
    whole = random.integers(10 ** (digits - 1), 10**digits, (41, 60))
    edges = [10 ** (digits - 1), 10**digits - 1, 10**digits]
    whole[:, :3] = edges
    powers = np.arange(-25, 16)[:, None]
    assert_as_python_writes_it(
        np.array([[float(f"{w}e{p}") for w in row] for row, p in zip(whole.tolist(), powers.ravel())])
    )
