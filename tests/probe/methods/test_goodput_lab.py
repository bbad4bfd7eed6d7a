"""Goodput on a lab whose uplinks are four times oversubscribed, and of shaped links."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.pipeline.scanning.goodput import GoodputRequest, Watched, goodput_phases
from netprobe.probe.flows.progress import MIN_TIMED_S
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.methods.goodput_options import SHORT, GoodputOptions, parse_sizes
from netprobe.probe.methods.path import Path
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import ScanOutcome
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.chooser import RoundRobin
from netprobe.probe.scan.session import Phase, run_scan

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

RATE_BIT_S = 50e6
GOODPUT = RATE_BIT_S / 8 * 1448 / 1514  # payload of full frames, without their checksum and preamble
SPEC = "{name: goodput-4to1, racks: [4, 3], delay_between: 1ms, host_rate: 50Mbit/s, uplink_rate: 50Mbit/s}"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=3) as made:
        yield made


@pytest.fixture(scope="module")
def outcome(lab: Lab) -> ScanOutcome:
    options = ScanOptions(probes_per_visit=30, python=sys.executable)
    watched = Watched(RoundRobin())
    phases = [
        Phase(method=Stamp(options), chooser=watched),
        *goodput_phases(options, GoodputRequest(options=GoodputOptions(way="tcp", seconds=0.2)), watched),
    ]
    return run_scan(read_hosts_file(lab.hosts_path), parse_via(lab.via_template), options, phases=phases)


def racks_of(lab: Lab) -> list[int]:
    truth = lab.truth()
    names = sorted({host.rack for host in truth.hosts})
    return [names.index(host.rack) for host in truth.hosts]


def test_no_reading_depends_on_its_round(lab: Lab, outcome: ScanOutcome) -> None:
    assert outcome.scan.status == "ok"
    matrix: FloatMatrix = outcome.scan.goodput_bytes_per_s["goodput"]
    racks = np.array(racks_of(lab))
    # With two flows on an uplink at once, or two ends in one host, half of the rate would be left to each. A
    # busy moment of this machine may slow some readings, and none is faster than what the switch lets pass.
    for links in (
        racks[:, None] != racks[None, :],
        (racks[:, None] == racks[None, :]) & ~np.eye(len(racks), dtype=bool),
    ):
        share = matrix[links] / GOODPUT
        assert np.isfinite(share).all()
        assert 0.6 < np.median(share) < 1.2, share


def test_each_uplink_has_one_flow_at_the_most_and_the_visits_show_it(lab: Lab, outcome: ScanOutcome) -> None:
    racks = racks_of(lab)
    visits = sorted((v for v in outcome.visits if v.measurement == "goodput"), key=lambda v: (v.round, v.src))
    rounds = [list(group) for _round, group in itertools.groupby(visits, key=lambda v: v.round)]
    assert len(rounds) == 2 * 4 * 3  # the least there can be: one link between the two racks a round
    for together in rounds:
        assert sum(racks[v.src] != racks[v.dst] for v in together) == 1
        ends = [end for v in together for end in (v.src, v.dst)]
        assert len(set(ends)) == len(ends)
        assert {v.beside for v in together} == {len(together) - 1}
    assert max(map(len, rounds)) == 3  # links inside the racks run at the same time


def test_no_sized_reading_is_faster_than_its_link_and_what_is_too_small_has_none(lab: Lab) -> None:
    options = ScanOptions(probes_per_visit=5, python=sys.executable, retries=0)
    watched = Watched(RoundRobin())
    request = GoodputRequest(
        options=GoodputOptions(way="tcp"), sizes=tuple(parse_sizes("4kB,100kB,1MB")), streams=(4,)
    )
    phases = [
        Phase(method=Stamp(options), chooser=watched),
        *goodput_phases(options, request, watched),
    ]
    hosts = read_hosts_file(lab.hosts_path)[2:5]
    found = run_scan(hosts, parse_via(lab.via_template), options, phases=phases)
    by_id: dict[str, list[VisitResult]] = {}
    for visit in found.visits:
        if visit.measurement.startswith("goodput"):
            by_id.setdefault(visit.measurement, []).append(visit)
    small, middle, large = by_id["goodput"], by_id["goodput:100kB:4"], by_id["goodput:1MB:4"]
    assert all(v.goodput is None and "too few bytes to time" in str(v.reason) for v in small)
    for visit in middle + large:
        if visit.goodput is not None:
            # A tenth for what a busy moment of this machine holds back and lets go at once.
            assert visit.goodput.bytes_per_s < 1.1 * GOODPUT or SHORT in visit.goodput.flags, visit
            assert visit.goodput.bytes_per_s <= visit.goodput.bytes / MIN_TIMED_S
    assert sum(v.goodput is not None for v in large) == 6


def test_a_path_that_swallows_large_packets_is_named_with_its_mtu() -> None:
    spec = "{name: narrow, racks: [1, 1], faults: [{racks: [0, 1], mtu: 1400}]}"
    with temporary(parse_spec(spec), seed=1) as lab:
        options = ScanOptions(probes_per_visit=5, python=sys.executable, retries=0, timeout_s=0.2)
        watched = Watched(RoundRobin())
        request = GoodputRequest(options=GoodputOptions(way="tcp"))
        traced = Phase(method=Path(options), chooser=RoundRobin())
        phases = [
            Phase(method=Stamp(options), chooser=watched),
            *goodput_phases(options, request, watched),
            traced,
        ]
        hosts = read_hosts_file(lab.hosts_path)
        found = run_scan(hosts, parse_via(lab.via_template), options, phases=phases)
    reasons = [v.reason or "" for v in found.visits if v.measurement == "goodput"]
    one, other = (host.name for host in hosts)
    assert len(reasons) == 2 and all("1400 of 1500 bytes" in reason for reason in reasons), reasons
    (warning,) = [text for text in found.scan.warnings if text.startswith("the path MTU")]
    assert f"{one} to {other}" in warning and f"{other} to {one}" in warning
