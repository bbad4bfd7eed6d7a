"""What an order is worth on readings that it was not sought on, and which of the candidates to trust.

Each pair of hosts has two readings, visited in rounds far apart. A half gets one of the two, drawn by the seed;
an order is sought on one half and priced on the other, and the other way round (two folds).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import Objective
from netprobe.plan.costs import CostModel, LinkCost
from netprobe.plan.order.candidates import CLOSE, RINGS, is_sum_ring, leaf_candidate, price, sought_candidate

SURELY = 0.1
"""By this share an annealed order has to cost less than the leaf order on readings held out, to be taken.

Two folds tell no less apart: where outliers pass, the held-out costs of equally good orders differ by up to half.
Where slow links stay, annealed orders were a third to three fifths below (64 hosts in racks of 8, six fleets
a case).
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """Seconds of links [src, dst] over all hosts of a document, one way; NaN where a host has no place."""

    alpha_s: FloatMatrix
    beta_s_per_byte: FloatMatrix | None = None
    size_bytes: int | None = None

    def among(self, hosts: Sequence[int]) -> LinkCost:
        """The costs among ``hosts``. Raises InputError where one is missing."""
        at = np.ix_(hosts, hosts)
        beta = self.beta_s_per_byte
        return LinkCost(
            alpha_s=self.alpha_s[at],
            beta_s_per_byte=None if beta is None else beta[at],
            size_bytes=0.0 if self.size_bytes is None else float(self.size_bytes),
        )

    def permuted(self, hosts: Sequence[int]) -> Links:
        """The same links with ``hosts[i]`` (an index) at place i."""
        at = np.ix_(hosts, hosts)
        beta = self.beta_s_per_byte
        return Links(
            alpha_s=self.alpha_s[at],
            beta_s_per_byte=None if beta is None else beta[at],
            size_bytes=self.size_bytes,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """One half to seek on, denoised and as searched on, and the readings of the other half to price on."""

    denoised: Links
    search: Links
    unseen: Links
    stays: Links | None = None
    """As searched on, with the full readings of links that stay slow; where slow readings repeat."""

    def permuted(self, hosts: Sequence[int]) -> Fold:
        """The same fold with ``hosts[i]`` (an index) at place i."""
        return Fold(
            denoised=self.denoised.permuted(hosts),
            search=self.search.permuted(hosts),
            unseen=self.unseen.permuted(hosts),
            stays=None if self.stays is None else self.stays.permuted(hosts),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutReadings:
    """What the readings behind a map add to it.

    search: the denoised costs and a small share of the readings, or None where a map is all there is. stays: the
    same, with the reading itself where both of a pair's say that it is slow; None where no pair is. ``folds`` is
    empty where orders cannot be judged; ``text`` says why, or what was judged.
    """

    search: Links | None = None
    stays: Links | None = None
    repeats: bool = False
    """Slow readings are of links that stay slow, by and large: what a search avoids by them will be there again."""
    raw_share: float = 0.0
    folds: tuple[Fold, ...] = ()
    pairs: int = 0
    text: str = ""

    def permuted(self, hosts: Sequence[int]) -> HeldOutReadings:
        """The same readings with ``hosts[i]`` (an index) at place i."""
        return replace(
            self,
            search=None if self.search is None else self.search.permuted(hosts),
            stays=None if self.stays is None else self.stays.permuted(hosts),
            folds=tuple(fold.permuted(hosts) for fold in self.folds),
        )


def held_out_costs(
    model: CostModel,
    objective: Objective,
    folds: Sequence[Fold],
    hosts: Sequence[int],
    given: Sequence[int],
    *,
    seed: int,
    iterations: int | None = None,
) -> dict[str, float]:
    """Mean cost in seconds, by kind of order, on the readings that it did not see; nothing without ``folds``.

    ``given`` holds places in ``hosts``, which are indices of the document's hosts, its root first.
    """
    found: dict[str, list[float]] = {}
    for fold in folds:
        denoised, unseen = fold.denoised.among(hosts), fold.unseen.among(hosts)
        leaf = leaf_candidate(model, objective, denoised, given[0])
        search = denoised if is_sum_ring(model, objective) else fold.search.among(hosts)
        stays = None if fold.stays is None or model.name in RINGS else fold.stays.among(hosts)
        sought = sought_candidate(
            model, objective, search, given, leaf.order, stays=stays, seed=seed, iterations=iterations, runs=1
        )
        orders = (("given", tuple(given)), ("leaf", leaf.order), (sought.kind, sought.order))
        for kind, order in orders:
            found.setdefault(kind, []).append(price(model, objective, order, unseen))
    return {kind: math.fsum(costs) / len(costs) for kind, costs in found.items()}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The kind of order that was chosen, and why. ``kept_given`` is a reason to keep the given order."""

    kind: str
    why: str
    kept_given: str | None = None


def choose(
    costs: Mapping[str, float],
    search_costs: Mapping[str, float],
    held_out: Mapping[str, float],
    *,
    alike: bool = True,
    repeats: bool = False,
) -> Choice:
    """Which candidate to take, by kind: the one with the least held-out cost whose ``costs`` are no worse than given.

    An annealed order is taken before the leaf order only where it is `SURELY` better: on readings held out, or, where
    slow readings ``repeats``, on all of them, being no dearer on those held out. Without a held-out cost
    the one that is least on the costs searched on. A given order whose held-out cost is within `CLOSE` of the least
    is kept; one that is not ``alike`` (see `order`: the sum of its hops is larger) only where it is as much below it.
    """
    # A plan never makes the given order dearer on the map itself.
    able = [kind for kind in costs if costs[kind] <= costs["given"]]
    others = able if alike else [kind for kind in able if kind != "given"] or able
    if held_out:
        # A polished order is an annealed one that was gone over once more.
        judged = {kind: held_out.get("annealed" if kind == "polished" else kind, math.inf) for kind in able}
        best = min(others, key=lambda kind: (judged[kind], search_costs[kind]))
        if (
            best == "leaf"
            and repeats
            and "annealed" in able
            and judged["annealed"] <= judged["leaf"] * (1 + CLOSE)
        ):
            best = min(able, key=lambda kind: (kind == "given", kind == "leaf", search_costs[kind]))
        plainly = best not in ("annealed", "polished") or "leaf" not in able
        plainly = plainly or judged[best] <= judged["leaf"] * (1 - SURELY)
        plainly = plainly or (repeats and search_costs[best] <= search_costs["leaf"] * (1 - SURELY))
        if not plainly:
            best = "leaf"
        least = judged[best]
        if held_out["given"] <= least * (1 + CLOSE if alike else 1 - CLOSE):
            above = held_out["given"] / least - 1 if least else 0.0
            of = "the best found" if plainly else "the leaf order"
            why = (
                "no other costs {} on readings held out".format("less" if plainly else f"{SURELY:.0%} less")
                if above <= 0
                else f"it is within {CLOSE:.0%} of {of} ({above:.1%}) on readings held out"
            )
            return Choice(kind="given", why=why, kept_given=why)
        if not plainly:
            return Choice(kind=best, why=f"nothing costs {SURELY:.0%} less on readings held out")
        return Choice(kind=best, why="least cost on readings held out")
    if alike:
        best = min(able, key=lambda kind: (search_costs[kind], kind != "given"))
    else:
        best = min(others, key=lambda kind: (search_costs[kind], kind != "ring"))
        if search_costs["given"] <= search_costs[best] * (1 - CLOSE):
            best = "given"
    return Choice(kind=best, why="least cost on the map; no reading was held out")
