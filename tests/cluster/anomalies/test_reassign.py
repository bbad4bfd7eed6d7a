"""A slow host is reassigned to the group whose row it has; a host of its own rack is not moved."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster import find_groups
from netprobe.cluster.anomalies.reassign import reassigned_hosts, with_reassigned
from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.embed import denoise

UNEQUAL = [4, 5, 6, 8, 8, 9, 12, 12]


def fleet(
    sizes: Sequence[int],
    rows: Sequence[int],
    *,
    add_us: float = 0.0,
    factor: float = 1.0,
    noise: float = 0.05,
    seed: int = 0,
    step_us: tuple[float, float, float] = (50.0, 250.0, 1000.0),
) -> tuple[NDArray[np.float64], list[int], int]:
    """Directed RTTs (N, N) in seconds, racks, and the host that is slow: by a delay, by a factor, or not at all."""
    rng = np.random.default_rng([seed, len(sizes)])
    rack = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    row = np.array(rows)[rack]
    host = int(rng.integers(len(rack)))
    same = [np.equal.outer(label, label) for label in (rack, row)]
    rtt = np.select(same, list(step_us[:2]), step_us[2])
    rtt[host] = rtt[host] * factor + add_us
    rtt[:, host] = rtt[:, host] * factor + add_us
    rtt *= np.exp(rng.normal(0.0, noise, rtt.shape)) * 1e-6
    np.fill_diagonal(rtt, 0.0)
    return rtt, rack.tolist(), host


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("sizes", "rows", "fault"),
    [
        (UNEQUAL, [0] * 8, {"add_us": 200.0}),
        (UNEQUAL, [0] * 8, {"add_us": 240.0}),
        ([4] * 4, [0, 0, 1, 1], {"add_us": 400.0}),
        ([4] * 4, [0, 0, 1, 1], {"factor": 5.0}),
        ([8, 8], [0, 1], {"add_us": 3000.0, "step_us": (100.0, 100.0, 8000.0)}),
    ],
)
def test_a_slow_host_is_in_its_own_rack(
    sizes: list[int], rows: list[int], fault: dict[str, float], seed: int
) -> None:
    rtt, rack, _ = fleet(sizes, rows, seed=seed, **fault)  # type: ignore[arg-type]
    grouping, verdict = find_groups(denoise(rtt), rtt, seed=0)
    assert adjusted_rand_index(rack, grouping.labels.tolist()) == 1.0
    assert verdict.locality == "found"
    levels = grouping.evidence["levels"]
    assert isinstance(levels, list) and all(len(level["of_groups"]) == len(set(rack)) for level in levels)


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_host_that_was_left_alone_is_reassigned(seed: int) -> None:
    rtt, rack, host = fleet([8] * 4, [0] * 4, add_us=200.0, seed=seed)
    true = np.unique(rack, return_inverse=True)[1].astype(np.int64)
    labels = true.copy()
    labels[host] = 4
    moved = reassigned_hosts(rtt, labels)
    assert moved == {host: true[host]}
    (again,) = with_reassigned([labels], moved)
    assert adjusted_rand_index(rack, again.tolist()) == 1.0
    assert reassigned_hosts(rtt, true) == {}


@pytest.mark.parametrize("sizes", [[6, 6, 3, 1], [8, 8, 1], [5, 5, 1, 1]])
@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_a_host_in_a_rack_of_its_own_stays_there(sizes: list[int], noise: float) -> None:
    for seed in range(4):
        rtt, rack, _ = fleet(sizes, [0] * len(sizes), noise=noise, seed=seed)
        assert reassigned_hosts(rtt, np.array(rack)) == {}


def test_hosts_without_readings_are_no_warning_and_go_nowhere() -> None:
    rtt, rack, host = fleet([6, 6, 4], [0, 0, 0], seed=4)
    rtt[host] = rtt[:, host] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reassigned_hosts(rtt, np.array(rack)) == {}
        assert reassigned_hosts(np.full((9, 9), np.nan), np.arange(9) % 3) == {}
