"""Which distances of a layer depend on the direction, and what they are.

A round trip is the same from both ends: two readings of netprobe's own probes differ by noise, and one distance
counts for both. Goodput, and a matrix that others measured, may differ by direction, and where it does beyond noise
both readings are kept. Latencies of which many pairs differ are not round trips: they are one-way times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netprobe.cluster import asymmetric_pairs
from netprobe.core.documents.matrix import FloatMatrix

MANY = 0.1
"""A share of the pairs that were measured both ways: where more differ, no single distance holds for a pair. Of round
trips between cities less than 1 % do."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """distance: (N, N) ``[src, dst]``, in the unit of the readings; is_directed: whether any pair's two differ.

    many: whether more than `MANY` do. from_back: links ``(src, dst)`` of a directed layer that rest on the reading of
    the way back alone.
    """

    distance: FloatMatrix
    is_directed: bool = False
    many: bool = False
    from_back: tuple[tuple[int, int], ...] = ()


def with_directions(raw: FloatMatrix, denoised: FloatMatrix) -> Directions:
    """``denoised`` (N, N), symmetric, with both ``raw`` readings of the pairs that differ beyond noise.

    raw: (N, N) ``[src, dst]``, NaN where missing. Where many pairs differ all links keep their readings: a symmetric
    fit of those misleads about the others too.
    """
    asymmetric = asymmetric_pairs(raw)
    if not asymmetric.any():
        return Directions(distance=denoised)
    known = ~np.isnan(raw) & ~np.eye(len(raw), dtype=bool)
    both = known & known.T
    many = bool(asymmetric.sum() > MANY * both.sum())
    back_only = ~known & known.T
    distance = np.where(asymmetric, raw, denoised)
    if many:
        distance = np.where(known, raw, np.where(back_only, raw.T, denoised))
    return Directions(
        distance=distance,
        is_directed=True,
        many=many,
        from_back=tuple((int(src), int(dst)) for src, dst in np.argwhere(back_only)),
    )
