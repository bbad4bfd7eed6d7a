"""The options of an order plan, checked, and put in the form that solvers take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.document import Parent
from netprobe.core.documents.map import Group
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, natural_order
from netprobe.plan.bounds.matrices import impossible, needed
from netprobe.plan.costs import LinkCost
from netprobe.plan.order.link_costs import Links
from netprobe.plan.order.order_proof import group_by_host
from netprobe.plan.order.strategies import strategy_of
from netprobe.plan.order.strategy import Effort, OrderStrategy
from netprobe.plan.search.polish import check_polish

MOST_SECONDS = 86_400
"""Of a search: a day."""


@dataclass(frozen=True, kw_only=True)
class OrderRequest:
    """An order of ``hosts`` (in their original order), and how to find it.

    Hosts in ``left_out`` get no rank. ``groups`` are only for counting crossings. ``root`` is the name of rank 0
    (default: the first host that has a rank). ``keep_original`` is a reason not to search: the original order is kept,
    under the root, and priced. ``iterations`` bounds each search; ``time_s`` repeats searches for so long, and
    ``exact_s`` polishes the order of a few hosts by CP-SAT: with either, bytes depend on the machine. ``maximize`` also
    searches the most expensive order.
    """

    hosts: Sequence[Host]
    groups: Sequence[Group] = ()
    parents: Sequence[Parent] = ()
    left_out: Sequence[str] = ()
    algorithm: str = "ring"
    objective: Objective = "sum"
    root: str | None = None
    seed: int = 0
    keep_original: str | None = None
    maximize: bool = False
    iterations: int | None = None
    time_s: float | None = None
    exact_s: float | None = None

    @property
    def effort(self) -> Effort:
        """How long to search for the plan's order."""
        return Effort(seed=self.seed, iterations=self.iterations, time_s=self.time_s)

    @property
    def fold_effort(self) -> Effort:
        """How long to search in each fold of the readings."""
        return Effort(seed=self.seed, iterations=self.iterations, runs=1)


@dataclass(frozen=True, kw_only=True)
class OrderProblem:
    """A checked request: the hosts that get a rank, numbered in natural order of their names.

    hosts: their places in the request's hosts. original: their numbers in the original order, under the root.
    """

    request: OrderRequest
    strategy: OrderStrategy
    size_bytes: int | None
    hosts: tuple[int, ...]
    original: tuple[int, ...]
    ranked: tuple[str, ...]
    """Their names in the original order, for any root."""
    link_cost: LinkCost
    group_of: Mapping[str, str] | None

    def named(self, order: Sequence[int]) -> list[str]:
        """Host names of an order."""
        return [self.request.hosts[self.hosts[number]].name for number in order]


def checked_problem(request: OrderRequest, links: Links) -> OrderProblem:
    """The problem that ``request`` poses on ``links``, which are in the order of its hosts.

    Raises InputError for a missing or impossible cost, an unknown root or algorithm, or when no host is left.
    """
    strategy = strategy_of(request.algorithm, request.objective)
    names = [host.name for host in request.hosts]
    ranked = _ranked(names, request.left_out)
    _check_limits(request, strategy, len(ranked))
    matrices = _matrices(links)
    for what, matrix in zip(("costs", "times a byte"), matrices):
        if matrix.shape != (len(names), len(names)):
            raise InputError(f"{what} of shape {matrix.shape} for {len(names)} hosts")
    first = _root(request, names, ranked)
    kept = [i for i in natural_order(request.hosts) if names[i] in set(ranked)]
    for what, matrix in zip(("cost", "time a byte"), matrices):
        _check_costs(matrix, kept, names, what)
    index = {names[i]: at for at, i in enumerate(kept)}
    return OrderProblem(
        request=request,
        strategy=strategy,
        size_bytes=links.size_bytes,
        hosts=tuple(kept),
        original=tuple(strategy.with_root([index[name] for name in ranked], index[first])),
        ranked=tuple(ranked),
        link_cost=links.among(kept),
        group_of=group_by_host(request.groups) if request.groups else None,
    )


def _matrices(links: Links) -> list[FloatMatrix]:
    beta = links.beta_s_per_byte
    return [links.alpha_s] if beta is None else [links.alpha_s, beta]


def _root(request: OrderRequest, names: Sequence[str], ranked: Sequence[str]) -> str:
    first = ranked[0] if request.root is None else request.root
    if first not in ranked:
        why = "has no reading" if first in names else f"is not one of the {len(names)} hosts"
        raise InputError(f"root {first!r} {why}")
    return first


def _check_limits(request: OrderRequest, strategy: OrderStrategy, hosts: int) -> None:
    for what, value in (("a time", request.time_s), ("an exact search", request.exact_s)):
        if value is not None and not 0 < value <= MOST_SECONDS:
            raise InputError(f"{what} of {value:g} s: more than 0 and at most {MOST_SECONDS} are needed")
    if request.exact_s is not None:
        if strategy.is_ring:
            raise InputError(
                f"an exact search of {request.algorithm}: its own solver proves small rings, leave it out"
            )
        check_polish(hosts)


def _ranked(names: Sequence[str], left_out: Sequence[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise InputError("a host is listed twice")
    unknown = sorted(set(left_out) - set(names))
    if unknown:
        raise InputError(f"host {unknown[0]!r} is to be left out, and is not one of the {len(names)} hosts")
    ranked = [name for name in names if name not in set(left_out)]
    if not ranked:
        raise InputError("no host is left to order: none has a reading")
    return ranked


def _check_costs(matrix: FloatMatrix, kept: Sequence[int], names: Sequence[str], what: str) -> None:
    work = matrix[np.ix_(kept, kept)]
    np.fill_diagonal(work, 0.0)
    bad = np.argwhere(impossible(work))
    if len(bad):
        src, dst = bad[0].tolist()
        value = work[src, dst]
        is_ = "is missing" if np.isnan(value) else f"is {value}"
        raise InputError(f"the {what} from {names[kept[src]]} to {names[kept[dst]]} {is_}: {needed()}")
