"""Medians and quantiles are numpy's, to the last digit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from netprobe.core.numeric.medians import median, quantile, quantiles, row_medians

FINITE = st.floats(-1e9, 1e9, allow_nan=False)


@given(
    arrays.arrays(np.float64, st.integers(1, 40), elements=FINITE),
    st.sampled_from([0.05, 0.25, 0.5, 0.75, 0.95]),
)
def test_they_are_those_of_numpy(values: np.ndarray, share: float) -> None:
    assert median(values) == np.median(values)
    assert quantile(values, share) == np.quantile(values, share)
    shares = np.array([0.0, share, 1.0])
    assert quantiles(values, shares).tolist() == np.quantile(values, shares).tolist()


@given(
    arrays.arrays(
        np.float64, st.tuples(st.integers(1, 8), st.integers(1, 9)), elements=FINITE | st.just(np.nan)
    )
)
def test_medians_of_rows_leave_out_what_is_missing(values: np.ndarray) -> None:
    expected = [np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else -1.0 for row in values]
    np.testing.assert_array_equal(row_medians(values, none=-1.0), expected)


def test_medians_of_rows_that_lack_as_many_cells_each() -> None:
    """As in every matrix without its diagonal: these rows are not sorted."""
    for count in (3, 4, 7, 8):
        values = np.random.default_rng(count).normal(size=(count, count))
        np.fill_diagonal(values, np.nan)
        np.testing.assert_array_equal(row_medians(values), np.nanmedian(values, axis=1))
