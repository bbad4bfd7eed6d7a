"""What is not simulated would not have been chosen: the search against one that simulates every candidate in full."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.plan.auto.candidates import (
    GIVEN,
    Candidate,
    distinct,
    flat_candidates,
    two_level_candidates,
    with_shares,
)
from netprobe.plan.auto.choice import BASELINES, CLOSE, MAY_BE, Chooser
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.predicting import run_of
from netprobe.plan.schedule.builders import ALGORITHMS
from tests.maps import HOST_BYTES_PER_S, made_capacity, made_map


def noisy(map_: Map, noise: float, uplink: float) -> Capacity:
    """Every host and uplink with a rate of its own, normally distributed."""
    drawn = random.Random(5)
    names = [f"{kind}:{host.name}" for kind in ("tx", "rx") for host in map_.hosts]
    rates: dict[str, float | None] = {name: HOST_BYTES_PER_S * drawn.gauss(1, noise) for name in names}
    for group in map_.groups:
        rates |= {f"{kind}:{group.id}": uplink * drawn.gauss(1, noise) for kind in ("up", "down")}
    return made_capacity(map_, uplink=uplink, rates=rates)


def chooser(map_: Map, capacity: Capacity) -> Chooser:
    hosts = [host.name for host in map_.hosts]
    orders = {GIVEN: hosts, "by group": [name for group in map_.groups for name in group.hosts]}
    made: list[Candidate] = flat_candidates(dict.fromkeys(ALGORITHMS, orders))
    groups = with_shares("natural", [group.hosts for group in map_.groups], hosts, capacity)
    made += two_level_candidates(hosts, groups, None, chunk_bytes=None)
    return Chooser(known=known_network(map_, hosts, capacity), candidates=made)


def unpruned_s(found: Chooser, size: int) -> float:
    """Seconds of what is chosen where every candidate is simulated in full, and every interval known."""
    times = {one: run_of(found.known, one, size).time_s for one in distinct(found.candidates, size)}
    base = min(
        (o for o in times if o.algorithm in BASELINES and o.order_name == GIVEN), key=times.__getitem__
    )
    ascending = sorted(times, key=times.__getitem__)
    faster = [one for one in ascending if times[one] * (1 + CLOSE) < times[base]]
    sure = [one for one in faster if found.surely(one, base, size)]
    if not sure:
        return times[base]
    own = next((one for one in sure if one.order_name == GIVEN), None)
    if own is None or sure[0].order_name == GIVEN:
        return times[sure[0]]
    near = times[own] <= times[sure[0]] * (1 + MAY_BE) and not found.surely(sure[0], own, size)
    return times[own if times[own] <= times[sure[0]] * (1 + CLOSE) or near else sure[0]]


def check(sizes: Sequence[int], noise: float, uplink: float, size: int) -> None:
    map_ = made_map(sizes, seed=1)
    found = chooser(map_, noisy(map_, noise, uplink))
    chosen = found.decide(size).candidate
    assert found.time_s(chosen, size) <= unpruned_s(found, size) * 1.02
    simulated = {one for one, at in found._runs if at == size}
    assert len(simulated) < len(distinct(found.candidates, size))


@pytest.mark.parametrize("size", [10**5, 10**6])
@pytest.mark.parametrize(
    ("noise", "uplink"), [(0.0, HOST_BYTES_PER_S), (0.05, HOST_BYTES_PER_S), (0.05, 1e12)]
)
def test_the_pruned_search_chooses_within_2_percent(noise: float, uplink: float, size: int) -> None:
    check([3, 3], noise, uplink, size)


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("sizes", [[4, 4, 4, 4], [8, 4, 2]])
def test_the_pruned_search_chooses_within_2_percent_of_more_hosts(sizes: list[int], noise: float) -> None:
    check(sizes, noise, HOST_BYTES_PER_S, 10**8)
