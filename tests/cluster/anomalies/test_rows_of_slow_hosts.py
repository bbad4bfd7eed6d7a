"""Which group a slow host belongs to, by every delay and factor that is tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster.anomalies import reassign
from tests.cluster.fleets import racks

Array = NDArray[Any]


def ends(n: int) -> tuple[Array, Array]:
    return np.triu_indices(n, 1)


def huber(size: float) -> float:
    """Half the square up to two deviations, then linear."""
    size = abs(size)
    return size**2 / 2 if size <= 2 else 2 * size - 2


def test_a_slow_hosts_row_is_held_against_one_delay_or_one_factor() -> None:
    rng = np.random.default_rng(5)
    expected = rng.uniform(1.0, 3.0, 12)
    shares = np.linspace(0.02, 0.98, 49)
    for row, slow in ((expected + 0.7, 0.7), (expected * 1.6, 0.6 * expected.min()), (expected - 0.3, 0.0)):
        noisy = row * np.exp(rng.normal(0.0, 0.05, 12))
        tried = []
        for delay in np.maximum(np.quantile(noisy - expected, shares), 0.0):
            tried.append((expected + delay, delay))
        for factor in np.maximum(np.quantile(noisy / expected, shares), 1.0):
            tried.append((expected * factor, (factor - 1) * expected.min()))
        losses = [np.mean([huber(x) for x in np.log(noisy / model) / 0.1]) for model, _ in tried]
        best = int(np.argmin(losses))
        found = reassign._best(noisy, np.arange(12), expected, 0.1)
        assert found == pytest.approx((losses[best], tried[best][1]))
        assert found[1] == pytest.approx(slow, abs=0.1)
    free = np.arange(12) < 3
    apart = expected + np.where(free, 9.0, 0.0)
    loss, _ = reassign._best(apart, np.arange(12), expected, 0.1, free=free)
    middle = np.median(np.log(apart[free]))
    sizes = np.where(free, np.log(apart) - middle, 0.0) / 0.1
    assert loss == pytest.approx(np.mean([huber(size) for size in sizes]), abs=1e-9)
    assert reassign._loss(np.array([0.5, -1.0, 2.0, 3.0, -4.0])) == pytest.approx([0.125, 0.5, 2.0, 4.0, 6.0])


def test_of_many_groups_those_that_fit_best_at_first_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirteen groups: the one that leaves most at first is not looked at."""
    rack = racks(*[3] * 14)
    step = 1.0 + np.arange(14)
    expected = np.abs(step[:, None] - step[None, :]) + 1.0
    labels = rack[rack > 0]  # the counted hosts of the thirteen others
    sizes = np.bincount(labels, minlength=14)
    places = reassign._Places(expected=expected, sizes=sizes, spread=0.05, losses=np.zeros(1))
    row = expected[13][labels] + 0.6
    tried: list[Array] = []
    best = reassign._best

    def kept(
        row: Array, labels: Array, levels: Array, spread: float, *, free: Array | None = None
    ) -> tuple[float, float]:
        tried.append(levels)
        return best(row, labels, levels, spread, free=free)

    monkeypatch.setattr(reassign, "_best", kept)
    assert reassign._place_of(row, labels, places, 1.0) == 13
    looked_at = [int(levels.argmin()) for levels in tried[:-1]]
    assert len(looked_at) == 12 and 13 in looked_at and 1 not in looked_at
    few = reassign._Places(
        expected=expected, sizes=np.where(np.arange(14) < 13, 0, sizes), spread=0.05, losses=np.zeros(1)
    )
    assert reassign._place_of(row, labels, few, 1.0) is None  # of one group nothing is clearer
