"""An order of the hosts that their distances alone decide.

Permuted matrices, k-means starts and ties all go by the place of a host. Where a result is near a threshold, another
order of the same hosts would then give other groups. So everything is computed in this order, and put back into the
one that was given.

Hosts whose distances are the same numbers are told apart by what they are to hosts of each kind (Weisfeiler and Leman
1968), with the fewest splitters (Hopcroft 1971). Of those that are still alike one is placed, and it tells the others
apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.distances import checked_distances

Integers = NDArray[np.int64]


def canonical_order(
    raw_distance_s: NDArray[np.float64], distance_s: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """(N,) the original places of N hosts, in an order that is the same however they were listed.

    raw_distance_s: (N, N) ``[src, dst]``, any unit, NaN where missing; distance_s: another matrix of the same hosts,
    which decides between hosts that the first one does not tell apart. Only comparisons are made, no arithmetic, so
    neither rounding nor the unit matters. Hosts that can be exchanged without a change of either matrix keep the given
    order. So do those of regular patterns that no such refinement tells apart; measured distances are none.

    Raises InputError for a bad matrix.
    """
    matrices = [checked_distances(one) for one in (raw_distance_s, distance_s) if one is not None]
    # Measured rows differ, and then this is all that is done.
    order, kind = _kinds(_ranks(np.sort(matrices[0] + 0.0, axis=1).astype(">f8")))
    if _all_told_apart(kind):
        return order
    cell = _cells(matrices)
    kind = _refined(kind, cell, np.unique(kind).tolist())
    while not _all_told_apart(kind):
        tied = int(np.flatnonzero(np.bincount(kind) > 1)[0])
        equals = np.flatnonzero(kind == tied)
        kind[equals[1:]] += 1
        kind = _refined(kind, cell, [tied])
    return np.argsort(kind)


def _all_told_apart(kind: Integers) -> bool:
    return len(np.unique(kind)) == len(kind)


def _kinds(value: Integers) -> tuple[NDArray[np.intp], Integers]:
    """The order of (N,) values, and each one's kind: how many are smaller. When others split it stays."""
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    kind = np.empty(len(value), dtype=np.int64)
    kind[order] = np.repeat(starts, np.diff([*starts, len(value)]))
    return order, kind


def _refined(kind: Integers, cell: Integers, splitters: list[int]) -> Integers:
    """Kinds (N,) split until all hosts of one are the same numbers of ``cell`` (N, N) from the hosts of any other.

    splitters: kinds that may split others. Of the parts of a kind that is none the largest need not become one: to the
    others and to all together hosts are compared already.
    """
    while splitters and not _all_told_apart(kind):
        members = np.flatnonzero(kind == splitters.pop(0))
        seen = (
            cell[:, members[0]]
            if len(members) == 1
            else _ranks(np.sort(cell[:, members], axis=1).astype(">i8"))
        )
        again = _kinds(kind * (int(seen.max()) + 1) + seen)[1]
        for whole in np.unique(kind[again != kind]).tolist():
            parts, sizes = np.unique(again[kind == whole], return_counts=True)
            kept = whole if whole in splitters else int(parts[sizes.argmax()])
            splitters += [part for part in parts.tolist() if part != kept]
        kind = again
    return kind


def _ranks(rows: NDArray[np.generic]) -> Integers:
    """(N,) the rank of each of N rows, the same for equal ones. Big-endian bytes of numbers that are not negative, NaN
    last, are ordered as the numbers are."""
    keys = [row.tobytes() for row in rows]
    rank = {key: at for at, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], dtype=np.int64)


def _cells(matrices: list[NDArray[np.float64]]) -> Integers:
    """(N, N) one number for what both directions of all matrices say of two hosts, in the order of what they say."""
    values = [_numbered(matrix) for matrix in matrices]
    values += [value.T for value in values if not np.array_equal(value, value.T)]
    cell = values[0]
    for value in values[1:]:
        cell = _numbered(cell * (int(value.max()) + 1) + value)
    return cell


def _numbered(values: NDArray[np.generic]) -> Integers:
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(values.shape), dtype=np.int64)
