"""Which group a slow host belongs to: its row is compared with each group's, less what the host itself adds.

A slow stack adds one delay to all links of a host, or one factor. By its distances such a host may be as near to another
group as to its own, or a group of its own; by the shape of its row it is not: every group sees the other groups from its
own place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.levels import symmetric

# A host is looked at when its group leaves more than this many times of what it leaves of most hosts' rows.
_SUSPECT = 2.0
# It moves to a group that leaves at most this many times of that,
_FITS = 2.0
# and is better than every other group, and than where it stands, by so much of the logarithm of the likelihood.
_CLEAR = 8.0
# What a host adds is at least this share of a pair inside its group, or it is not slow.
_LEAST_EXCESS = 0.25
# A residual counts as its square up to this many deviations, then linearly (Huber 1964).
_ROBUST = 2.0
# The spread of like pairs is never held to be less than this (log units).
_LEAST_SPREAD = 0.02
# Its mates are held to be no mates when they would be likelier, by so much, at another distance.
_APART = 3.0
# Values that are tried for what a host adds: quantiles of what its links are above the expected. Few do for a first look.
_TRIED, _TRIED_FIRST = np.linspace(0.02, 0.98, 49), np.array([0.25, 0.5, 0.75])
# In a fleet where more hosts than this share of all look slow, nobody's group is known well enough.
_MOST = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class _Places:
    """The groups of the hosts that are not suspected.

    expected: (k, k) distance inside a group and between two of them; sizes: (k,); spread: deviation of a pair (log);
    usual: what these hosts' own groups leave of a link of theirs, see `_loss`.
    """

    expected: NDArray[np.float64]
    sizes: NDArray[np.int64]
    spread: float
    usual: float


def rehomed(raw_distance_s: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[int, int]:
    """Slow hosts that stand in another's group or alone, and the group that each belongs to.

    raw_distance_s: (N, N) ``[src, dst]`` as measured, any unit, NaN where missing; labels: (N,) the finest groups, 0 to
    k - 1. A host is moved where one group explains its row, but for one delay or one factor, as well as other hosts' groups
    explain theirs, and clearly better than any other does. Raises InputError for a bad matrix.
    """
    matrix = symmetric(raw_distance_s)
    k = int(labels.max()) + 1
    positive = matrix[np.isfinite(matrix) & (matrix > 0)]
    if k < 2 or len(labels) < 6 or not len(positive):
        return {}
    matrix = np.maximum(matrix, 1e-3 * float(np.median(positive)))
    suspects = _suspects(matrix, labels)
    if not suspects or len(suspects) > _MOST * len(labels):
        return {}
    ordinary = np.ones(len(labels), dtype=bool)
    ordinary[suspects] = False
    places = _places(matrix, labels, ordinary)
    moved = {}
    for host in suspects:
        group = _place_of(matrix[host], labels, ordinary, places, current=int(labels[host]))
        if group is not None and group != labels[host]:
            moved[host] = group
    return moved


def _suspects(matrix: NDArray[np.float64], labels: NDArray[np.int64]) -> list[int]:
    """Hosts that are alone, and hosts whose row is not that of their group."""
    everybody = np.ones(len(labels), dtype=bool)
    places = _places(matrix, labels, everybody)
    losses = np.array(
        [
            _best(row, places.expected[group][labels], places.spread, tried=_TRIED_FIRST)[0]
            for row, group in zip(matrix, labels)
        ]
    )
    alone = np.bincount(labels)[labels] == 1
    return np.flatnonzero(alone | (losses > _SUSPECT * np.median(losses))).tolist()


def _places(matrix: NDArray[np.float64], labels: NDArray[np.int64], counted: NDArray[np.bool_]) -> _Places:
    k = int(labels.max()) + 1
    level = np.where(counted[:, None] & counted[None, :], np.log(matrix), np.nan)
    same = labels[:, None] == labels[None, :]
    known = np.isfinite(level)
    inside = level[same & known]
    between = level[~same & known]
    usual = [float(np.median(values)) if len(values) else np.nan for values in (inside, between)]
    expected = np.where(np.eye(k, dtype=bool), usual[0], usual[1])
    members = [np.flatnonzero((labels == group) & counted) for group in range(k)]
    for one in range(k):
        for other in range(one, k):
            values = level[np.ix_(members[one], members[other])]
            values = values[np.isfinite(values)]
            if len(values) >= 3:
                expected[one, other] = expected[other, one] = np.median(values)
    rest = (level - expected[labels[:, None], labels[None, :]])[known]
    spread = max(1.4826 * float(np.median(np.abs(rest))), _LEAST_SPREAD) if len(rest) else _LEAST_SPREAD
    places = np.exp(expected)
    losses = [
        _best(matrix[host], places[labels[host]][labels], spread, tried=_TRIED_FIRST)[0]
        for host in np.flatnonzero(counted)
    ]
    return _Places(
        expected=places,
        sizes=np.array([len(one) for one in members]),
        spread=spread,
        usual=float(np.median(losses)) if losses else 0.0,
    )


def _place_of(
    row: NDArray[np.float64],
    labels: NDArray[np.int64],
    ordinary: NDArray[np.bool_],
    places: _Places,
    *,
    current: int,
) -> int | None:
    """The group whose row this is, but for what the host adds; None where none is, or several may be."""
    there = ordinary & np.isfinite(row)
    links = int(there.sum())
    found = {}
    for group in np.flatnonzero(places.sizes >= 2).tolist():
        found[group] = _best(row[there], places.expected[group][labels[there]], places.spread)
    if len(found) < 2 or links < 4:
        return None
    order = sorted(found, key=lambda group: found[group][0])
    loss, excess = found[order[0]]
    if loss > _FITS * places.usual or excess < _LEAST_EXCESS * places.expected[order[0], order[0]]:
        return None
    if (found[order[1]][0] - loss) * links < _CLEAR:
        return None
    mates = labels[there] == order[0]
    apart, _ = _best(row[there], places.expected[order[0]][labels[there]], places.spread, free=mates)
    return order[0] if (loss - apart) * links <= _APART else None


def _best(
    row: NDArray[np.float64],
    expected: NDArray[np.float64],
    spread: float,
    *,
    tried: NDArray[np.float64] = _TRIED,
    free: NDArray[np.bool_] | None = None,
) -> tuple[float, float]:
    """Mean loss of a row's links under the best delay or factor, and what that adds to the nearest pairs.

    free: links that may be at a distance of their own instead, and are at their median.
    """
    known = np.isfinite(row) & np.isfinite(expected)
    row, expected = row[known], expected[known]
    if not len(row):
        return 0.0, 0.0
    level = np.log(row)
    delays = np.maximum(np.quantile(row - expected, _TRIED), 0.0)
    factors = np.maximum(np.quantile(row / expected, _TRIED), 1.0)
    models = np.concatenate([expected + delays[:, None], expected * factors[:, None]])
    rest = level - np.log(models)
    if free is not None:
        rest[:, free] = level[free] - np.median(level[free])
    losses = _loss(rest / spread).mean(axis=1)
    at = int(losses.argmin())
    return float(losses[at]), float((models[at] - expected).min())


def _loss(size: NDArray[np.float64]) -> NDArray[np.float64]:
    size = np.abs(size)
    return np.where(size <= _ROBUST, size**2 / 2, _ROBUST * (size - _ROBUST / 2))
