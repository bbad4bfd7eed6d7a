"""Groups joined in many matrices at once come to what plain joining comes to in each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.cluster.distances.log_distances import log_distances_of
from netprobe.cluster.distances.pairs import symmetric
from netprobe.cluster.partition.regroup import joined_scores
from tests.properties import examples

Matrix = NDArray[np.float64]


def plainly_joined(first: NDArray[np.intp], second: NDArray[np.intp], values: Matrix, n: int) -> float:
    """The best score by joining, pair of groups by pair of groups; the first of equals."""
    values = values - values.mean()
    spread, best = float(np.sqrt((values**2).sum())), 0.0
    groups = {host: [host] for host in range(n)}
    between = {(int(i), int(j)): [float(v)] for i, j, v in zip(first, second, values)}
    inside: list[float] = []
    while spread > 0:
        found = None
        for pair in sorted(between):
            count, total = len(inside) + len(between[pair]), sum(inside) + sum(between[pair])
            rest = len(values) - count
            if rest <= 0:
                continue
            value = (-total / rest - total / count) * np.sqrt(count * rest / len(values)) / spread
            if found is None or value > found[0] + 1e-12:
                found = value, pair
        if found is None or found[0] <= best + 1e-9:
            break
        best, (one, other) = found
        inside += between.pop((one, other))
        groups[one] += groups.pop(other)
        for third in groups:
            moved = between.pop((min(other, third), max(other, third)), None)
            if moved is not None and third != one:
                between.setdefault((min(one, third), max(one, third)), []).extend(moved)
    return best


@given(
    n=st.integers(3, 24),
    share=st.floats(0.1, 1.0),
    matrices=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
@examples(60)
def test_joining_in_many_matrices_at_once_is_joining_in_each(
    n: int, share: float, matrices: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rack = rng.integers(0, 4, n)
    distance = np.where(rack[:, None] == rack[None, :], 1.0, 2.0) * np.exp(rng.normal(0, 0.2, (n, n)))
    hidden = np.triu(rng.random((n, n)) >= share, 1)
    hidden[np.arange(n - 1), np.arange(1, n)] = False
    known = symmetric(np.where(hidden | hidden.T | np.eye(n, dtype=bool), np.nan, distance))
    log_distances = log_distances_of(known)
    assert log_distances is not None
    first, second = (ends[log_distances.measured] for ends in np.triu_indices(n, 1))
    values = np.array(
        [rng.permutation(log_distances.log_distance[log_distances.measured]) for _ in range(matrices)]
    )
    plain = [plainly_joined(first, second, one, n) for one in values]
    assert np.allclose(joined_scores(log_distances, values), plain, rtol=1e-9, atol=1e-12)


def test_matrices_without_any_difference_have_no_score_and_do_not_disturb_the_others() -> None:
    distance = np.array([[0.0, 1.0, 2.0, 2.1], [0, 0, 2.2, 2.0], [0, 0, 0, 1.1], [0, 0, 0, 0]])
    distance += distance.T
    np.fill_diagonal(distance, np.nan)
    log_distances = log_distances_of(distance)
    assert log_distances is not None
    values = log_distances.log_distance[log_distances.measured]
    alone = joined_scores(log_distances, values[None])
    flat = joined_scores(log_distances, np.stack([np.zeros_like(values), values, np.zeros_like(values)]))
    assert flat.tolist() == [0.0, alone[0], 0.0]
    assert alone[0] > 0.9
