"""Where hosts really are, and how often a matrix of distances says so: PAIA.

Source: dissertation, section 6.2.5. A position is a tuple from the outside in (region, .. row, rack); the more
of it two hosts share, the nearer they are. A triplet is an observer c and an unordered pair {a, b} of other
hosts of which one shares more of its position with c than the other does. The matrix is right about it when
the nearer one has the strictly smaller distance to c. PAIA is the share of the triplets it is right about.

Two hosts at the same distance score 0, as published: so a matrix that says nothing scores 0, and one of
coin throws scores one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError

Position = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Paia:
    """What became of the triplets. ``missing`` ones lack a distance; they and the ``ties`` count as wrong."""

    triplets: int
    right: int
    ties: int
    missing: int

    @property
    def paia(self) -> float | None:
        """Physical Affinity Inference Accuracy, 0 to 1; None where no host has one nearer than another."""
        return self.right / self.triplets if self.triplets else None


def shared_depths(positions: Sequence[Position]) -> NDArray[np.int64]:
    """(N, N) length of the longest common prefix of each two positions; that of a host with itself is its own."""
    shared = np.zeros((len(positions), len(positions)), dtype=np.int64)
    for depth in range(1, max(map(len, positions), default=0) + 1):
        codes: dict[Position, int] = {}
        # A position that ends before this depth shares nothing here, with another such one neither.
        code = np.array(
            [
                codes.setdefault(place[:depth], len(codes)) if len(place) >= depth else -1 - i
                for i, place in enumerate(positions)
            ]
        )
        shared += (code[:, None] == code[None, :]) & (code >= 0)[:, None]
    return shared


def paia(distance: NDArray[np.float64], positions: Sequence[Position]) -> Paia:
    """PAIA of N hosts in O(L N^2 log N) for positions of L tiers.

    distance: (N, N), row c as observer c has it, any unit, NaN where missing; the diagonal is not read.
    Raises InputError for a matrix of another shape.
    """
    size = len(positions)
    if np.shape(distance) != (size, size):
        raise InputError(f"distances of shape {np.shape(distance)} for {size} positions")
    return paia_of_depths(distance, shared_depths(positions))


def paia_of_depths(distance: NDArray[np.float64], shared: NDArray[np.int64]) -> Paia:
    """The same for (N, N) ``shared``: the larger, the nearer two hosts are (`shared_depths`)."""
    size = len(shared)
    others = ~np.eye(size, dtype=bool)
    triplets = right = ties = seen = 0
    for observer in range(size):
        depth_of = shared[observer][others[observer]]
        values = distance[observer][others[observer]]
        nearer = np.empty(0)
        counted = 0
        for depth in np.unique(depth_of)[::-1]:
            here = depth_of == depth
            triplets += counted * int(here.sum())
            counted += int(here.sum())
            farther = values[here]
            farther = np.sort(farther[~np.isnan(farther)])
            below = np.searchsorted(nearer, farther, side="left")
            right += int(below.sum())
            ties += int((np.searchsorted(nearer, farther, side="right") - below).sum())
            seen += len(nearer) * len(farther)
            nearer = np.sort(np.concatenate([nearer, farther]))
    return Paia(triplets=triplets, right=right, ties=ties, missing=triplets - seen)
