"""The buffer with which each order runs often enough: by a model of the network, no network."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.verify.sizing import LEAST_BYTES, LEAST_RUNS, WARM_UPS, fitted_bytes, runs_needed

MB = 10**6


def fitted(
    most: int, alpha_s: float, bytes_per_s: float, *, time_s: float = 60.0, surveyed: int = 0
) -> tuple[int, float]:
    """The size, and the seconds that trials took: four runs each."""
    spent = 0.0

    async def timed(size_bytes: int) -> float:
        nonlocal spent
        spent += 4 * (alpha_s + size_bytes / bytes_per_s)
        return alpha_s + size_bytes / bytes_per_s

    return asyncio.run(fitted_bytes(most, timed, surveyed=surveyed, time_s=time_s)), spent


def test_a_quick_network_keeps_the_buffer() -> None:
    assert fitted(32 * MB, 1e-3, 1e9)[0] == 32 * MB
    # Latency alone: each run takes as long with any buffer, and one in fourteen parts of the time fits.
    assert fitted(32 * MB, 0.5, 1e9)[0] == 32 * MB


def test_a_slow_one_gets_what_fits() -> None:
    # 32 MB at 5 MB/s take 6.4 s, and 14 of them 90 s: 60 s less the margin are 17 MB.
    size, _ = fitted(32 * MB, 0.0, 5e6)
    assert size in (16 * MB, 17 * MB)
    assert fitted(32 * MB, 0.0, 5e6, surveyed=10)[0] in range(3_200_000, 4_000_001)
    assert fitted(1000, 10.0, 1.0)[0] == 1000  # nothing smaller would say more


@given(st.integers(1, 10**9), st.floats(0, 2), st.floats(1e4, 1e10), st.floats(10, 600), st.integers(0, 20))
def test_six_runs_of_each_fit_or_the_buffer_is_the_least(
    most: int, alpha_s: float, bytes_per_s: float, time_s: float, surveyed: int
) -> None:
    size, spent = fitted(most, alpha_s, bytes_per_s, time_s=time_s, surveyed=surveyed)
    assert 1 <= size <= most and (size == most or size % 4 == 0 or size <= LEAST_BYTES * 32)
    least = min(most, max(most // 512, LEAST_BYTES))
    if runs_needed(surveyed) * (alpha_s + least / bytes_per_s) <= 0.6 * time_s:
        assert spent + runs_needed(surveyed) * (alpha_s + size / bytes_per_s) <= time_s
        assert runs_needed(surveyed) >= WARM_UPS + 2 * LEAST_RUNS
    first = 4 * (alpha_s + least / bytes_per_s)
    assert spent <= first + 0.15 * time_s * 1.001


@pytest.mark.parametrize("most", [1, 3, 65_536])
def test_a_small_buffer_is_not_tried(most: int) -> None:
    assert fitted(most, 1.0, 1.0) == (most, 0.0)
