"""The proof that a pattern of group averages brings every host to the same value.

An iteration replaces each host's value by its group's mean: an orthogonal projection, symmetric and doubly
stochastic. A product of projections keeps the length of a vector only if each of them leaves it unchanged, so
the product contracts everything but the common mean exactly when the union of the groups is connected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Groups = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Consensus:
    """How fast a pattern mixes: ``rho`` a pattern and an iteration, and iterations until 1/1000 is left."""

    rho: float
    norm: float
    rho_per_iteration: float
    iterations_to_1e3: int


def is_connected(pattern: Sequence[Groups], hosts: int) -> bool:
    """Whether the groups of all iterations together join all hosts, 0 to ``hosts`` - 1."""
    parent = list(range(hosts))

    def root(host: int) -> int:
        while parent[host] != host:
            parent[host] = parent[parent[host]]
            host = parent[host]
        return host

    for groups in pattern:
        for group in groups:
            for host in group[1:]:
                parent[root(host)] = root(group[0])
    return len({root(host) for host in range(hosts)}) <= 1


def product(pattern: Sequence[Groups], hosts: int) -> npt.NDArray[np.float64]:
    """The averaging matrices multiplied, the last iteration leftmost; shape (hosts, hosts).

    Raises ValueError where an iteration's groups do not hold every host once.
    """
    result = np.eye(hosts)
    for groups in pattern:
        if sorted(host for group in groups for host in group) != list(range(hosts)):
            raise ValueError("the groups of an iteration must hold every host exactly once")
        for group in groups:
            rows = list(group)
            result[rows] = result[rows].mean(axis=0)
    return result


def prove(pattern: Sequence[Groups], hosts: int) -> Consensus:
    """The pattern's contraction; ValueError where its hosts never all mix.

    ``rho`` is the largest eigenvalue (absolute) and ``norm`` the largest singular value of the product on the
    vectors that sum to zero; eigenvalues say how fast a repeated pattern mixes, and ``norm`` >= ``rho``.
    """
    if not pattern or not is_connected(pattern, hosts):
        raise ValueError("the groups of this pattern never mix all hosts (rho = 1)")
    rest = product(pattern, hosts) - 1.0 / hosts
    rho = float(np.abs(np.linalg.eigvals(rest)).max())
    norm = float(np.linalg.norm(rest, 2))
    rate = rho ** (1.0 / len(pattern))
    steps = len(pattern) if rho < 1e-12 else math.ceil(math.log(1e-3) / math.log(rate) - 1e-9)
    return Consensus(rho, norm, rate, steps)
