"""The proof of a pattern: averages are doubly stochastic, and over a period they reach all hosts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix

CLOSE = 1e-3
FEW = 64
"""Hosts up to which the norm is a singular value; above, of the Gram matrix, which takes a third of the time."""


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
    """
    if hosts == 1:
        return 0.0
    rest = product(pattern, hosts) - 1.0 / hosts
    if hosts <= FEW:
        return float(np.linalg.norm(rest, 2))
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(rest.T @ rest)[-1])))


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
        matrix = averaging(iteration.groups, hosts)
        if not (np.allclose(matrix.sum(axis=0), 1.0) and np.allclose(matrix.sum(axis=1), 1.0)):
            raise ValueError(f"iteration {number} is not doubly stochastic")
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
    if hosts > 1 and not rho_of(pattern, hosts) < 1 - 1e-9:
        raise ValueError("averages do not reach all hosts: rho is 1")
