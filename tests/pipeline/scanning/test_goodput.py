"""Groups for goodput rounds out of a phase of RTT, and what a phase will be before they are known."""

from __future__ import annotations

import numpy as np

from netprobe.embed import EmbedOptions, denoise, fit_embedding
from netprobe.pipeline.scanning.goodput import (
    GoodputRequest,
    Watched,
    assumed_extent,
    goodput_phases,
    rtt_groups,
)
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.samples import Samples, sample_fields
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.chooser import Results, RoundRobin
from netprobe.probe.rounds.goodput_rounds import least_extent

RACKS = np.array([0, 1, 1, 0, 2, 2, 0, 1, 2, 0, 1, 2])
HOSTS = len(RACKS)


def visits(*, dead: int | None = None, locality: bool = True) -> list[VisitResult]:
    """RTT of every link: 100 us inside a rack, 300 us across, and noise."""
    noise = np.random.default_rng(3)
    made = []
    for src in range(HOSTS):
        for dst in range(HOSTS):
            if src == dst or dead in (src, dst):
                continue
            near = not locality or bool(RACKS[src] == RACKS[dst])
            rtt = (1e-4 if near else 3e-4) + noise.exponential(4e-6, 20)
            made.append(
                VisitResult(
                    src=src, dst=dst, round=0, started_s=0, duration_s=0.1, stamps="kernel", sent=20,
                    received=20,
                    **sample_fields(
                        Samples.of_seconds(np.arange(1, 21, dtype=np.uint32), np.arange(20) * 1e-3, rtt)
                    ),
                )
            )  # fmt: skip
    return made


def test_the_groups_are_those_of_the_rtt_of_the_same_scan() -> None:
    racks = [[int(h) for h in np.flatnonzero(rack == RACKS)] for rack in range(3)]
    found = rtt_groups(visits(), HOSTS)
    assert sorted(found) == racks
    without = [[host for host in rack if host != 4] for rack in racks]
    assert sorted(rtt_groups(visits(dead=4), HOSTS)) == without
    assert rtt_groups(visits(locality=False), HOSTS) == [list(range(HOSTS))]
    assert rtt_groups([], HOSTS) == []


def test_the_rounds_of_a_phase_follow_the_rtt_phase_before_it() -> None:
    watched = Watched(RoundRobin())
    results = Results(hosts=HOSTS, alive=frozenset(range(HOSTS)), visits=visits())
    while watched.next_round(results) is not None:
        pass
    phases = goodput_phases(ScanOptions(), GoodputRequest.parse(sizes="1MB,10MB", streams=None), watched)
    assert [phase.method.measurement.id for phase in phases] == ["goodput", "goodput:10MB:1"]
    for phase in phases:
        rounds = []
        while (
            links := phase.chooser.next_round(Results(hosts=HOSTS, alive=results.alive, visits=[]))
        ) is not None:
            rounds.append(links)
            assert sum(RACKS[link.src] != RACKS[link.dst] for link in links) <= 1
        assert sum(map(len, rounds)) == HOSTS * (HOSTS - 1)
        assert len(rounds) == least_extent([4, 4, 4]).rounds == 96


def test_denoised_distances_are_those_of_a_map() -> None:
    matrix = np.array(
        [
            [np.nan, 1.0, 3.0, 3.1],
            [1.1, np.nan, 2.9, np.nan],
            [3.0, 3.0, np.nan, 1.0],
            [3.2, 3.1, 1.2, np.nan],
        ]
    )
    fit = fit_embedding(matrix, options=EmbedOptions(), seed=0)
    assert np.allclose(denoise(matrix, method="ensemble"), fit.distance_s, rtol=1e-9)


def test_before_the_groups_are_known_they_are_thought_to_be_sqrt_n() -> None:
    assert assumed_extent(16) == least_extent([4, 4, 4, 4])
    assert (assumed_extent(16).rounds, assumed_extent(16).links) == (96, 240)
    assert assumed_extent(1).rounds == assumed_extent(0).links == 0
