"""The buffer with which each order runs often enough: by a model of the network, no network."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netprobe.verify.comparison import OVERTIME, ComparisonOptions, Record, compare
from netprobe.verify.runner import Batch, StoppedRunError
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


class Network:
    """Runs take ``alpha_s`` and so long for their bytes, by a tenth more or less; ``slower`` after the trials."""

    batch_s = 0.0

    def __init__(self, alpha_s: float, bytes_per_s: float, *, slower: float, seed: int) -> None:
        self.alpha_s, self.bytes_per_s, self.slower = alpha_s, bytes_per_s, slower
        self.rng, self.now, self.size_bytes, self.ran = random.Random(seed), 0.0, 0, 0

    def run(self, size_bytes: int) -> float:
        seconds = (self.alpha_s + size_bytes / self.bytes_per_s) * self.rng.uniform(0.9, 1.1)
        self.now += seconds
        return seconds

    async def timed(self, size_bytes: int) -> float:
        return sum([self.run(size_bytes) for _ in range(4)][2:]) / 2

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        """Nothing is asked of further ones."""
        enough = self.ran >= WARM_UPS + 2 * LEAST_RUNS
        self.ran += len(sequence)
        seconds = () if enough else tuple(self.run(self.size_bytes) for _ in sequence)
        return Batch(seconds=seconds, reason="enough" if enough else None)

    async def verified(self, most: int, time_s: float) -> Record:
        """The buffer is chosen, and two orders are compared in the time that is left."""
        self.size_bytes = await fitted_bytes(most, self.timed, surveyed=0, time_s=time_s)
        self.alpha_s, self.bytes_per_s = self.alpha_s * self.slower, self.bytes_per_s / self.slower
        options = ComparisonOptions(
            time_s=max(1.0, time_s - self.now), precision=0.001, wanted_pairs=LEAST_RUNS
        )
        record = Record()
        with contextlib.suppress(StoppedRunError):
            await compare(self, [1], options, record, clock=lambda: self.now)
        return record


@given(
    st.integers(1, 10**9),
    st.floats(0, 2),
    st.floats(1e4, 1e10),
    st.floats(10, 600),
    st.floats(1, 1.2),
    st.integers(0, 99),
)
def test_times_that_vary_and_a_network_that_got_slower_leave_six_runs_of_each(
    most: int, alpha_s: float, bytes_per_s: float, time_s: float, slower: float, seed: int
) -> None:
    least = min(most, max(most // 512, LEAST_BYTES))
    assume(runs_needed(0) * (alpha_s + least / bytes_per_s) <= 0.6 * time_s)
    network = Network(alpha_s, bytes_per_s, slower=slower, seed=seed)
    record = asyncio.run(network.verified(most, time_s))
    counted = [one.order for one in record.comparison if not one.warm_up]
    assert counted.count(0) >= LEAST_RUNS and counted.count(1) >= LEAST_RUNS
    assert network.now <= 1.1 * OVERTIME * time_s
