"""The same map, capacities and readings give the same plans on every machine and from version to version.

Who changes on purpose what is planned writes down here what it is then: words that are no message, whole numbers, the
figures that an advice quotes and how many things it says (a checksum, and all of them where it differs), and
sums of the logarithms of times and costs.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning.held_out import readings_of
from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto
from netprobe.pipeline.planning.plan_ds_sync import DsSyncRequest, plan_ds_sync
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.pipeline.planning.plan_two_level import TwoLevelRequest, plan_two_level
from netprobe.plan import Links
from netprobe.plan.auto.predicting import Tried
from tests.documents import make_scan, rack_rtt
from tests.maps import made_capacity, made_map

Figures = tuple[list[Any], float]


def told(advice: str | None) -> list[Any]:
    """The figures in a sentence, and how many things it says."""
    assert advice is not None
    return [" ".join(re.findall(r"[0-9][0-9.]*", advice)), advice.count(";"), advice.count(",")]


def summed(values: Iterable[float | None]) -> float:
    return math.fsum(math.log(value) * (1 + at % 7) for at, value in enumerate(values) if value)


def network(racks: list[int], seed: int, share: float, goodput: float | None = None) -> tuple[Map, Capacity]:
    """Hosts and uplinks that all differ, each read within ``share`` to both sides."""
    map_ = made_map(racks, seed=seed, goodput=goodput, rows=[at // 2 for at in range(len(racks))])
    rng = np.random.default_rng([seed, sum(racks)])
    made = []
    for one in made_capacity(map_, uplink=2e8).resources:
        rate = (one.bytes_per_s or 0.0) * float(rng.integers(5, 15)) / 10
        ends = {"low_bytes_per_s": rate / (1 + share), "high_bytes_per_s": rate * (1 + share)}
        made.append(one.model_copy(update={"bytes_per_s": rate, **ends}))
    return map_, made_capacity(map_).model_copy(update={"resources": made})


def averages(racks: list[int], seed: int, known: bool, contended: list[str] | None) -> Figures:
    """A pattern of DS-Sync."""
    map_, capacity = network(racks, seed, 0.0)
    request = DsSyncRequest(contended=contended, size_bytes=10**7, seed=seed)
    plan = plan_ds_sync(map_, request, capacity=capacity if known else None)
    words = [
        plan.contended_groups, plan.contended_hosts, plan.contended_share, plan.pattern_length,
        plan.iterations_to_a_thousandth, plan.seed, len(plan.parents),
        zlib.crc32(repr([(one.groups, one.leaders) for one in plan.pattern]).encode()), *told(plan.advice),
    ]  # fmt: skip
    times = (plan.predicted_s, plan.all_reduce_s, plan.hierarchical_s)
    return words, summed([*times, 1 + plan.rho, 1 + plan.rho_per_iteration, 1 + plan.eigenvalue])


def tried(rows: Iterable[Tried]) -> tuple[list[Any], float]:
    """What was tried, in its order, and its times."""
    found = list(rows)
    names = [(one.candidate.label, one.candidate.chunk_bytes) for one in found]
    times = [
        value
        for one in found
        for value in (
            one.time_s, one.at_least_s,
            *([] if one.prediction is None
              else [one.prediction.time_s, one.prediction.low_s, one.prediction.high_s]),
        )
    ]  # fmt: skip
    return [len(names), zlib.crc32(repr(names).encode())], summed(times)


def levels(racks: list[int], seed: int, share: float | None, grouping: str) -> Figures:
    """2LHA; ``share`` None: without capacities."""
    map_, capacity = network(racks, seed, share or 0.0, goodput=6e7)
    request = TwoLevelRequest(grouping=grouping, size_bytes=3 * 10**6, seed=seed, channels=2)
    made = plan_two_level(map_, request, capacity=None if share is None else capacity)
    words, times = tried(made.tried)
    plan = made.plan
    return [
        *words, plan.grouping, plan.groups, plan.channels, plan.size_bytes, made.decides, len(made.unknown),
        len(plan.parents), plan.seed, *told(plan.advice),
    ], times  # fmt: skip


def chosen(racks: list[int], seed: int, share: float | None, size_bytes: int) -> Figures:
    """The automatic choice."""
    map_, capacity = network(racks, seed, share or 0.0, goodput=4e7)
    hosts = [host.name for host in map_.hosts]
    request = AutoRequest(size_bytes=size_bytes, seed=seed, ranges=False, orders={"reverse": hosts[::-1]})
    made = plan_auto(map_, request, capacity=None if share is None else capacity)
    words, times = tried(made.tried)
    return [
        *words, made.decision.reason, made.decision.candidate.label, made.decision.likely.label,
        made.plan.algorithm, len(made.ranges), made.decides, len(made.unknown), len(made.plan.parents),
        len(made.plan.predictions), made.plan.seed, *told(made.plan.advice),
    ], times  # fmt: skip


def ordered(racks: list[int], seed: int, algorithm: str, known: bool) -> Figures:
    """An order by the readings of a scan, and by capacities where they are known."""
    rtt = rack_rtt(racks, seed=seed)
    scan = make_scan(rtt, visits=False)
    map_ = map_scan(scan)
    capacity = made_capacity(map_, uplink=1.5e8, rates={"tx:n2": 5e7, "rx:n3": 7e7}) if known else None
    request = PlanRequest(algorithm=algorithm, seed=seed, iterations=200, maximize=True)
    plan = plan_order(map_, request, scan=scan, capacity=capacity)
    solver, held = plan.solver, plan.held_out
    assert solver is not None and held is not None
    words = [
        plan.order, plan.kept_given is not None, solver.kind, sorted(solver.held_out_s), solver.runs, solver.steps,
        held.folds, held.pairs, len(plan.parents), *told(plan.advice),
    ]  # fmt: skip
    costs = [
        plan.cost_s,
        plan.cost_given_s,
        plan.cost_worst_s,
        plan.lower_bound_s,
        held.cost_s,
        held.gain_low,
    ]
    return words, summed([*costs, *solver.candidates_s.values(), *solver.held_out_s.values()])


def behind(seed: int, slow: float, lacking: int) -> Figures:
    """The readings behind a map: of some pairs both are slow, or one is missing."""
    rtt = rack_rtt([3, 3, 3], seed=seed)
    for src, dst in ((0, 4), (1, 3), (5, 8)):
        rtt[src, dst] *= slow
        rtt[dst, src] *= slow
    for pair in range(lacking):
        rtt[2 * pair + 1, 2 * pair] = np.nan
    scan = make_scan(rtt, visits=False)
    found = readings_of(map_scan(scan), scan, seed=seed)

    def of(links: Links | None) -> float:
        return 0.0 if links is None else summed(links.alpha_s[np.triu_indices(9, 1)].tolist())

    sums = [of(found.search), of(found.slow)]
    sums += [
        of(each) for fold in found.folds for each in (fold.denoised, fold.search, fold.unseen, fold.slow)
    ]
    words = [found.slow_repeats, found.raw_share, len(found.folds), found.pairs, len(found.noise)]
    words += [found.slow is None, *(fold.slow is None for fold in found.folds)]
    return words, math.fsum(value * (1 + at) for at, value in enumerate(sums)) + math.fsum(found.noise)


KINDS = {"averages": averages, "levels": levels, "chosen": chosen, "ordered": ordered, "behind": behind}
EXPECTED: list[tuple[str, tuple[Any, ...], int, float]] = [
    ("averages", ([4, 3, 4], 1, True, None), 4161182340, 3.418388079313048),
    ("averages", ([5, 2, 4, 4], 3, True, None), 805546569, 4.460065907530643),
    ("averages", ([3, 3], 2, False, ["group:g1", "host:h2", "host:h0"]), 2789282025, 7.615349579785259),
    ("averages", ([4], 2, True, []), 3675950191, -7.2178398239571155),
    ("levels", ([3, 2, 2], 1, 0.0, "best"), 1697135392, -103.70868985717861),
    ("levels", ([3, 2, 1], 2, 0.1, "best"), 795475475, -82.8284129402986),
    ("levels", ([4, 4], 3, None, "sqrt"), 485256984, -32.07000858037845),
    ("levels", ([2, 2, 2, 2], 4, 0.05, "nested"), 2082578144, -28.281019234905862),
    ("levels", ([5], 2, 0.0, "natural"), 637005036, -33.92829232514369),
    ("chosen", ([3, 3], 1, 0.0, 1000000), 1234769617, -1228.1692190241354),
    ("chosen", ([2, 3, 1], 2, 0.1, 100000), 2008523046, -2065.421347568874),
    ("chosen", ([3, 2], 3, None, 1000000), 3118913618, -499.42677123708125),
    ("chosen", ([4], 4, 0.3, 1000), 1018783217, -1837.6710322366741),
    ("ordered", ([3, 4], 2, "chunked-ring", True), 289355295, -233.69880123164083),
    ("ordered", ([4, 3], 3, "halving-doubling", True), 1082804078, -280.7048454265546),
    ("behind", (2, 4.0, 0), 3638959564, -69316.35172253492),
    ("behind", (3, 3.0, 1), 496437554, -69390.75421760284),
]


@pytest.mark.parametrize(("kind", "given", "expected", "sums"), EXPECTED)
def test_plans(kind: str, given: tuple[Any, ...], expected: int, sums: float) -> None:
    words, total = KINDS[kind](*given)  # type: ignore[operator]
    assert zlib.crc32(repr(words).encode()) == expected, words
    # Distances that were fitted differ in their last digits from one library to the next.
    assert total == pytest.approx(sums, rel=1e-9 if kind in ("averages", "levels", "chosen") else 1e-6)
