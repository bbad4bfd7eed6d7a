"""The same map and capacities give the same choice, times and ranges on every machine and from version to version.

A choice hangs on every limit, tie and share of the chooser. Who changes one on purpose writes down here what is chosen
then. Rates are whole numbers of a formula; times are compared to nine digits.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.plan.auto.candidates import Candidate, flat_candidates, two_level_candidates, with_shares
from netprobe.plan.auto.choice import Chooser, Decision
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.predicting import prediction_of
from tests.maps import made_capacity, made_map

SIZES = (1_000, 100_000, 3_000_000)


def uneven(map_: Map, seed: int, share: float) -> Capacity:
    """Hosts and uplinks that all differ, each read within ``share`` to both sides."""
    rng = np.random.default_rng([seed, len(map_.hosts)])
    made = []
    for one in made_capacity(map_, uplink=2e8).resources:
        rate = (one.bytes_per_s or 0.0) * float(rng.integers(5, 15)) / 10
        update: dict[str, Any] = {"bytes_per_s": rate}
        if share:
            update |= {"low_bytes_per_s": rate / (1 + share), "high_bytes_per_s": rate * (1 + share)}
        made.append(one.model_copy(update=update))
    return made_capacity(map_).model_copy(update={"resources": made})


def chooser(racks: list[int], seed: int, share: float, goodput: float | None) -> Chooser:
    """Every algorithm, in the original order and by group, and 2LHA in all sizes of chunks."""
    map_ = made_map(racks, seed=seed, goodput=goodput)
    hosts = [host.name for host in map_.hosts]
    capacity = uneven(map_, seed, share)
    by_group = [name for group in map_.groups for name in group.hosts]
    names = ("chunked-ring", "halving-doubling", "bcube", "flat", "nccl-tree", "recursive-doubling")
    made: list[Candidate] = flat_candidates({name: {"original": hosts, "group": by_group} for name in names})
    groups = with_shares("natural", [group.hosts for group in map_.groups], hosts, capacity)
    made += two_level_candidates(hosts, groups, None, chunk_bytes=None)
    return Chooser(known=known_network(map_, hosts, capacity), candidates=made)


def said(decision: Decision) -> str:
    return f"{decision.reason}: {decision.candidate.label}, {decision.likely.label}"


def found(racks: list[int], seed: int, share: float, goodput: float | None) -> tuple[list[Any], list[float]]:
    """What is chosen, and sums of the logarithms of all times that are said."""
    made = chooser(racks, seed, share, goodput)
    decisions = [made.decide(size) for size in SIZES]
    words: list[Any] = [said(one) for one in decisions]
    sums = []
    for decision in decisions:
        rows = made.table(decision)
        words.append(
            zlib.crc32(repr([(row.candidate.label, row.candidate.chunk_bytes) for row in rows]).encode())
        )
        times = [
            value
            for row in rows
            for value in (
                row.time_s, row.at_least_s, row.prediction and row.prediction.time_s,
                row.prediction and row.prediction.low_s, row.prediction and row.prediction.high_s,
            )
        ]  # fmt: skip
        sums.append(math.fsum(math.log(value) * (1 + at % 7) for at, value in enumerate(times) if value))
    ranges = made.ranges(decisions[1])
    words += [(one.first_bytes, one.reason, one.candidate and one.candidate.label) for one in ranges]
    words.append(made.simulated)
    one = prediction_of(made.known, decisions[2].candidate, SIZES[2])
    words += [one.busiest, one.bytes_on_wire, one.bytes_across_groups, one.steps]
    sums.append(one.utilisation or 0.0)
    return words, sums


CASES: list[tuple[list[int], int, float, float | None, list[Any], list[float]]] = [
    (
        [2, 3],
        2,
        0.1,
        50000000.0,
        [
            "faster: recursive-doubling in the order group, recursive-doubling in the order group",
            "faster: bcube in the original order, bcube in the original order",
            "faster: 2lha on natural groups in the original order, 2lha on natural groups in the original order",
            510589127,
            2751570673,
            2508899209,
            (1000, "faster", "bcube in the original order"),
            (254829, "faster", "2lha on natural groups in the original order"),
            (562341325, "cannot_tell", None),
            35394,
            "rx:h0",
            24000000,
            6000000,
            13,
        ],
        [-557.6760466477288, -355.76301800025396, -257.5340687849359, 0.8527854242501536],
    ),
    (
        [2, 2, 2],
        3,
        0.3,
        None,
        [
            "faster: bcube in the original order, bcube in the order group",
            "cannot_tell: chunked-ring in the original order, chunked-ring in the order group",
            "cannot_tell: chunked-ring in the original order, 2lha on natural groups in the original order",
            826171609,
            3831369825,
            2837121127,
            (1000, "faster", "bcube in the original order"),
            (64939, "cannot_tell", None),
            65792,
            "rx:h1",
            30000000,
            15000000,
            10,
        ],
        [-647.1329894149881, -465.397687885393, -316.3115366138201, 0.9985022466300549],
    ),
    (
        [4, 2, 1],
        4,
        0.02,
        20000000.0,
        [
            "faster: bcube in the original order, bcube in the original order",
            "faster: bcube in the original order, bcube in the original order",
            "faster: bcube in the original order, bcube in the original order",
            3499793227,
            1136805569,
            1943715089,
            (1000, "faster", "bcube in the original order"),
            30538,
            "rx:h0",
            36000000,
            24000008,
            2,
        ],
        [-347.3771399383557, -260.03269668174244, -146.99997336564581, 0.9981076582443013],
    ),
]


@pytest.mark.parametrize(("racks", "seed", "share", "goodput", "words", "sums"), CASES)
def test_choices(
    racks: list[int],
    seed: int,
    share: float,
    goodput: float | None,
    words: list[Any],
    sums: list[float],
) -> None:
    chosen, times = found(racks, seed, share, goodput)
    assert chosen == words
    assert times == pytest.approx(sums, rel=1e-9)
