"""Hosts and links that are slower than their place explains, and links that differ by direction.

A host's place is its group: what is expected of a pair is the typical distance of the two groups, or of the
group itself. A host is named when most of its links are slower than that by one factor that other hosts do
not show, or by one delay: a delay is not a factor of far links, and shows on the near ones. A link is named
when it is slower than both its ends explain. Where many pairs differ by direction, as one-way times do, each direction
is compared with all directions, and a link is slow where it is so both ways: the quick direction of other pairs
says nothing against a pair that has none. The thresholds are multiples of the median absolute deviation (Hampel
1974); the rules are netprobe's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.anomalies.directions import asymmetric_pairs
from netprobe.cluster.distances.coverage import is_sparse
from netprobe.cluster.distances.pairs import ends_of, symmetric
from netprobe.core.numeric.medians import median, row_medians

# Named from these effects on, and from this many robust standard deviations of the others.
_HOST_RATIO, _LINK_RATIO = 1.25, 2.0
_HOST_SIGMAS, _LINK_SIGMAS = 5.0, 8.0
# The spread is at least this (log units): fleets without noise have none.
_LEAST_SPREAD = 0.02
# Links are judged where both ends have this many, or all, of their pairs measured.
_LEAST_READINGS = 8
# A delay towards everybody is at least this share as long outside the host's group as inside it.
_SAME_DELAY = 0.5
# A block of two groups has a median of its own from so many readings on, and groups of so many hosts.
_FEWEST_OF_A_BLOCK, _FEWEST_OF_A_GROUP = 6, 3
# Where more than this share of the pairs measured both ways differ by direction, no single distance holds for a pair.
_MANY_DIRECTED = 0.1
# A link this much above what is expected counts as slower.
_AGREES = 1.1


@dataclass(frozen=True, kw_only=True)
class OutlierHost:
    """``ratio``: median of measured over expected of its links; ``excess``: the same as a difference, in the
    unit of the matrix; ``slower`` of its ``links`` are above the expected by a tenth and more."""

    host: int
    ratio: float
    excess: float
    slower: int
    links: int


@dataclass(frozen=True, kw_only=True)
class OutlierLink:
    """``ratio``: measured, both ways where both were, over what the two groups and the two hosts explain."""

    first: int
    second: int
    ratio: float


@dataclass(frozen=True, kw_only=True)
class OutlierDirection:
    """``src`` to ``dst`` measured ``ratio`` times what ``dst`` to ``src`` did."""

    src: int
    dst: int
    ratio: float


@dataclass(frozen=True, kw_only=True)
class OutlierSet:
    """Each list is in order of effect, largest first."""

    hosts: tuple[OutlierHost, ...]
    links: tuple[OutlierLink, ...]
    asymmetric: tuple[OutlierDirection, ...]


def find_outliers(raw_distance_s: NDArray[np.float64], labels: NDArray[np.int64]) -> OutlierSet:
    """The outliers of (N, N) ``[src, dst]`` distances, NaN where missing, for the groups ``labels`` (N,).

    Distances in seconds, or in any unit: what is found does not depend on it. Raises InputError for a bad matrix.
    """
    raw = np.array(raw_distance_s, dtype=np.float64)
    np.fill_diagonal(raw, np.nan)
    pairs = asymmetric_pairs(raw)
    matrix, ways = _distances(raw, pairs)
    positive = matrix[np.isfinite(matrix) & (matrix > 0)]
    asymmetric = _asymmetric(raw, pairs)
    unplaced = is_sparse(raw) and len(np.unique(labels)) == 1  # near and far are not known
    if len(matrix) < 4 or not len(positive) or unplaced:
        return OutlierSet(hosts=(), links=(), asymmetric=asymmetric)
    floor = 1e-3 * median(positive)
    log_distance, log_ways = np.log(np.maximum(matrix, floor)), np.log(np.maximum(ways, floor))
    expected = _expected(log_distance[None], labels)
    over = log_distance - expected
    terms = row_medians(over, none=0.0)
    same = labels[:, None] == labels[None, :]
    hosts = _hosts(matrix, np.exp(expected), over, terms, same)
    # A slow host adds the same delay to all of its links, near and far; small differences grow with them.
    excess = np.zeros(len(matrix))
    for slow in hosts:
        excess[slow.host] = slow.excess
    usual = np.exp(expected if len(ways) == 1 else _expected(log_ways, labels))
    over = log_ways - np.log(usual + excess[:, None] + excess[None, :])
    terms = row_medians(np.concatenate(list(over), axis=1), none=0.0)
    over = over - terms[:, None] - terms[None, :]
    # Of an end with few readings its own term is a guess, and so is what it explains.
    vague = np.isfinite(log_distance).sum(axis=1) < min(_LEAST_READINGS, len(log_distance) - 1)
    over[:, vague] = over[:, :, vague] = np.nan
    return OutlierSet(hosts=hosts, links=_links(over), asymmetric=asymmetric)


def _distances(
    raw: NDArray[np.float64], asymmetric: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N, N) one distance a pair, and (D, N, N) what its links are judged by: that one, or each of two directions."""
    both = np.isfinite(raw) & np.isfinite(raw.T)
    if asymmetric.sum() <= _MANY_DIRECTED * both.sum():
        matrix = symmetric(raw)
        return matrix, matrix[None]
    there = np.where(np.isnan(raw), raw.T, raw)
    return np.sqrt(there * there.T), np.stack([raw, raw.T])


def _expected(log_distances: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N, N) median log distance of each pair's kind, of (D, N, N): inside any group, or between two groups.

    Groups too small to have a median of their own share that of all pairs inside, or all between.
    """
    first, second = ends_of(len(labels))
    pairs = log_distances[:, first, second]
    known = np.isfinite(pairs)
    same = labels[first] == labels[second]
    usual = []
    for kind in (same, ~same):
        values = pairs[kind & known]
        usual.append(median(values if len(values) else pairs[known]))
    own = block_medians(pairs, labels)[labels[:, None], labels[None, :]]
    return np.where(np.isnan(own), np.where(labels[:, None] == labels[None, :], *usual), own)


def block_medians(
    pairs: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    fewest: int = _FEWEST_OF_A_BLOCK,
    of_a_group: int = _FEWEST_OF_A_GROUP,
) -> NDArray[np.float64]:
    """(k, k) median of the known ones of the (.., M) pairs between two groups or inside one, NaN where few.

    pairs: condensed, in any unit, NaN where missing; labels: (N,). ``fewest`` readings make a median, of groups
    of ``of_a_group`` hosts at least.
    """
    sizes = np.bincount(labels)
    k = len(sizes)
    first, second = ends_of(len(labels))
    known = np.isfinite(pairs)
    one, other = (np.broadcast_to(labels[end], pairs.shape)[known] for end in (first, second))
    block, values = np.minimum(one, other) * k + np.maximum(one, other), pairs[known]
    # Sorted by block, and in a block by value, the median of each is in its middle. Small numbers sort quickest.
    order = np.argsort(values)
    block = block.astype(np.min_scalar_type(k * k))
    order = order[np.argsort(block[order], kind="stable")]
    values = values[order]
    blocks, start, count = np.unique(block[order], return_index=True, return_counts=True)
    middle = (values[start + (count - 1) // 2] + values[start + count // 2]) / 2
    one, other = blocks // k, blocks % k
    large = np.minimum(sizes[one], sizes[other]) >= of_a_group
    # A pair inside a group counts for both of its hosts.
    enough = np.where(one == other, 2 * count, count * large) >= fewest
    table = np.full((k, k), np.nan)
    table[one[enough], other[enough]] = table[other[enough], one[enough]] = middle[enough]
    return table


def _spread(values: NDArray[np.float64]) -> float:
    return max(1.4826 * median(np.abs(values - median(values))), _LEAST_SPREAD)


def _hosts(
    matrix: NDArray[np.float64],
    expected: NDArray[np.float64],
    over: NDArray[np.float64],
    terms: NDArray[np.float64],
    same: NDArray[np.bool_],
) -> tuple[OutlierHost, ...]:
    beyond = terms - median(terms)
    slow = beyond > max(np.log(_HOST_RATIO), _HOST_SIGMAS * _spread(terms))
    found = []
    for host in np.flatnonzero(slow | _delayed(matrix, expected, same)).tolist():
        there = np.isfinite(over[host])
        found.append(
            OutlierHost(
                host=host,
                ratio=float(np.exp(terms[host])),
                excess=median((matrix[host] - expected[host])[there]),
                slower=int((over[host][there] > np.log(_AGREES)).sum()),
                links=int(there.sum()),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.ratio, one.host)))


def _delayed(
    matrix: NDArray[np.float64], expected: NDArray[np.float64], same: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(N,) hosts with one delay on top of their links, beyond that of others both inside their group and outside.

    Inside it is a fourth of what is expected at least; outside, where most links may be far, it may be little
    of it. One that shows inside only is a host of another group, or a group inside a group.
    """
    inside, outside = (row_medians(np.where(kind, matrix - expected, np.nan)) for kind in (same, ~same))
    if np.isnan(inside).all() or np.isnan(outside).all():
        return np.zeros(len(matrix), dtype=bool)
    near = row_medians(np.where(same & np.isfinite(matrix), expected, np.nan))
    far = row_medians(np.where(~same & np.isfinite(matrix), expected, np.nan))
    clear = np.ones(len(matrix), dtype=bool)
    delays = []
    for delay, typical in ((inside, near), (outside, far)):
        known = np.isfinite(delay)
        delay = delay - median(delay[known])
        spread = 1.4826 * median(np.abs(delay[known]))
        clear &= known & (delay > _HOST_SIGMAS * np.maximum(spread, _LEAST_SPREAD * typical))
        delays.append(delay)
    return np.asarray(
        clear & (delays[0] >= (_HOST_RATIO - 1) * near) & (delays[1] >= _SAME_DELAY * delays[0])
    )


def _links(over: NDArray[np.float64]) -> tuple[OutlierLink, ...]:
    """The pairs of which every known one of the (D, N, N) stands out of all of them."""
    first, second = ends_of(over.shape[1])
    each = over[:, first, second]
    if not np.isfinite(each).any():
        return ()
    each = each - median(each[np.isfinite(each)])
    limit = max(np.log(_LINK_RATIO), _LINK_SIGMAS * _spread(each[np.isfinite(each)]))
    values = np.fmin.reduce(each, axis=0)
    known = np.isfinite(values)
    found = []
    for at in np.flatnonzero(known & (values > limit)).tolist():
        one, other = int(first[at]), int(second[at])
        found.append(OutlierLink(first=one, second=other, ratio=float(np.exp(values[at]))))
    return tuple(sorted(found, key=lambda link: (-link.ratio, link.first, link.second)))


def _asymmetric(raw: NDArray[np.float64], pairs: NDArray[np.bool_]) -> tuple[OutlierDirection, ...]:
    found = []
    for src, dst in np.argwhere(pairs & (raw > raw.T)).tolist():
        found.append(OutlierDirection(src=src, dst=dst, ratio=float(raw[src, dst] / raw[dst, src])))
    return tuple(sorted(found, key=lambda link: (-link.ratio, link.src, link.dst)))
