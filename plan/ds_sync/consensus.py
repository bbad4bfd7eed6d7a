"""The proof of a pattern: averages are doubly stochastic, and over a period they reach all hosts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix

CLOSE = 1e-3
Ints = NDArray[np.int64]


class Groups(Protocol):
    """An iteration's averaging groups."""

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        """Each host in one."""


def check_groups(groups: Sequence[Sequence[int]], hosts: int) -> None:
    """Raise ValueError unless ``groups`` hold each host once."""
    if sorted(host for group in groups for host in group) != list(range(hosts)):
        raise ValueError("groups do not hold each host once")


def averaging(groups: Sequence[Sequence[int]], hosts: int) -> FloatMatrix:
    """W (N, N): each host gets the mean of its group. Raises ValueError unless ``groups`` hold each host once."""
    check_groups(groups, hosts)
    matrix = np.zeros((hosts, hosts))
    for group in groups:
        matrix[np.ix_(group, group)] = 1.0 / len(group)
    return matrix


def joins_all(pattern: Sequence[Groups], hosts: int) -> bool:
    """Whether a period's groups, as links between their hosts, connect all hosts: exactly then the norm is below 1.

    An iteration is an orthogonal projection onto what is constant in each of its groups. A product of projections
    keeps the length of a vector only where each of them keeps the vector: where it is constant on all groups, so on
    whatever they connect.
    """
    label = np.arange(hosts)
    while True:
        before = label.copy()
        for iteration in pattern:
            order, starts, sizes = _sorted_groups(iteration.groups)
            label[order] = np.repeat(np.minimum.reduceat(label[order], starts), sizes)
        if (label == before).all():
            return not label.any()


def _sorted_groups(groups: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Ints]:
    """Hosts (N,) group after group, where each group begins, and how many hosts it has."""
    sizes = np.array([len(group) for group in groups if group], dtype=np.int64)
    order = np.fromiter(itertools.chain.from_iterable(groups), dtype=np.int64, count=int(sizes.sum()))
    return order, np.cumsum(sizes) - sizes, sizes


def product(pattern: Sequence[Groups], hosts: int) -> FloatMatrix:
    """The product of a period's averages, the last one leftmost.

    Raises ValueError unless each iteration holds each host once.
    """
    total = np.eye(hosts)
    for iteration in pattern:
        check_groups(iteration.groups, hosts)
        for group in iteration.groups:
            at = np.array(group, dtype=np.intp)
            total[at] = total[at].mean(axis=0)
    return total


def rho_of(pattern: Sequence[Groups], hosts: int) -> float:
    """The operator norm of a period on what differs from the mean: differences shrink at least by it, below 1 if mixed.

    The paper's rho is the second largest eigenvalue (lemma IV.1); its product is not symmetric, and the norm is never
    less, so that this bounds every start. 0 for one host.

    An iteration is C C' with orthonormal columns, one a group. So the norm is that of a matrix with a row for each of
    the last iteration's groups and a column for each of the first's. Raises ValueError where they do not hold each host
    once.
    """
    if hosts == 1:
        return 0.0
    for iteration in pattern:
        check_groups(iteration.groups, hosts)
    order, starts, sizes = _sorted_groups(pattern[0].groups)
    total = np.zeros((hosts, len(sizes)))
    total[order, np.repeat(np.arange(len(sizes)), sizes)] = np.repeat(1.0 / np.sqrt(sizes), sizes)
    rest = total - np.sqrt(sizes) / hosts
    for iteration in pattern[1:]:
        order, starts, sizes = _sorted_groups(iteration.groups)
        means = np.add.reduceat(rest[order], starts, axis=0) / sizes[:, None]
        rest[order] = np.repeat(means, sizes, axis=0)
    sums = np.add.reduceat(rest[order], starts, axis=0) / np.sqrt(sizes)[:, None]
    return float(np.linalg.norm(sums, 2))


def eigenvalue_of(pattern: Sequence[Groups], hosts: int) -> float:
    """The paper's rho of a period: the largest absolute eigenvalue on what differs from the mean."""
    if hosts == 1:
        return 0.0
    return float(np.abs(np.linalg.eigvals(product(pattern, hosts) - 1.0 / hosts)).max())


def steps_until_close(rho: float, length: int) -> int:
    """Iterations after which differences are at most a thousandth, in whole periods of ``length``."""
    if rho <= CLOSE:
        return length
    return length * math.ceil(math.log(CLOSE) / math.log(rho))


def check_pattern(pattern: Sequence[Groups], racks: Sequence[Sequence[int]]) -> None:
    """Raises ValueError unless each iteration holds every host once, uplinks carry one connection, and all mix."""
    hosts = sum(map(len, racks))
    rack_of = {host: number for number, rack in enumerate(racks) for host in rack}
    for number, iteration in enumerate(pattern):
        # Means of groups that hold each host once are symmetric, and their rows add up to 1.
        check_groups(iteration.groups, hosts)
        crossing: dict[int, int] = {}
        for group in iteration.groups:
            if len({rack_of[host] for host in group}) > 1:
                for host in group:
                    crossing[rack_of[host]] = crossing.get(rack_of[host], 0) + 1
        busy = next((rack for rack, count in crossing.items() if count > 1), None)
        if busy is not None:
            raise ValueError(
                f"iteration {number}: {crossing[busy]} hosts of rack {busy} average across its uplink"
            )
    if not joins_all(pattern, hosts):
        raise ValueError("averages do not reach all hosts: rho is 1")
