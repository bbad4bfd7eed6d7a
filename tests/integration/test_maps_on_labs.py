"""Maps of real scans of labs: unequal and equal racks, two tiers, and sick hosts, against the truth.

Racks are further apart than what a busy machine adds. How near the distances are is for the bench to say.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest

from netprobe.core.documents.map import Map
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, set_value, temporary
from netprobe.lab.truth import Truth
from netprobe.pipeline import map_scan, plan_order, scan
from netprobe.pipeline.scanning.measuring import Measuring, parse_measuring
from netprobe.pipeline.truth.scoring import score_map
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.options import ScanOptions

pytestmark = [pytest.mark.lab, pytest.mark.quiet]
ATTEMPTS = 3  # a neighbour on the same cores may hold the switch up
Fault = Callable[[Lab], None]
Attempts = Callable[[int], Iterator[int]]


def mapped(
    spec: str,
    folder: Path,
    attempts: Attempts,
    *,
    seed: int,
    fault: Fault = lambda _lab: None,
    measuring: Measuring | None = None,
    probes: int = 15,
) -> tuple[Map, Truth]:
    """The map of a scan of a lab, and the truth. Scanned again where the groups are not the racks."""
    options = ScanOptions(probes_per_visit=probes, python=shlex.quote(sys.executable))
    with temporary(parse_spec(spec), seed=seed) as lab:
        fault(lab)
        for attempt in attempts(ATTEMPTS):
            out = folder / str(attempt)
            out.mkdir()
            scanned = scan(
                read_hosts_file(lab.hosts_path),
                launcher=parse_via(lab.via_template),
                folder=out,
                options=options,
                measuring=measuring,
            )
            map_ = map_scan(scanned)
            if score_map(map_, lab.truth()).ari == 1.0:
                break
        return map_, lab.truth()


@pytest.mark.parametrize("racks", [[6, 6, 4], [4] * 4])
def test_equal_and_unequal_racks_are_the_groups(tmp_path: Path, attempts: Attempts, racks: list[int]) -> None:
    spec = f"{{name: maps{sum(racks)}, racks: {racks}, delay_inside: 50us, delay_between: 1ms}}"
    map_, truth = mapped(spec, tmp_path, attempts, seed=51)
    score = score_map(map_, truth, plan_order(map_))
    assert score.ari == 1.0
    assert score.crossings == len(racks)
    assert map_.verdict.locality == "found", map_.verdict.text
    assert map_.grouped_by == "rtt" and list(map_.layers.named()) == ["rtt"]


def test_two_tiers_are_found_as_racks_in_rows(tmp_path: Path, attempts: Attempts) -> None:
    spec = """
        name: maps-tiers
        racks: [4, 4, 4, 4]
        delay_inside: 50us
        delay_between: 4ms
        delay_pairs: [{racks: [0, 1], delay: 500us}, {racks: [2, 3], delay: 500us}]
    """
    map_, truth = mapped(spec, tmp_path, attempts, seed=52)
    assert score_map(map_, truth).ari == 1.0
    rack_of = {host.name: host.rack for host in truth.hosts}
    rows = [rack_of[group.hosts[0]] in ("rack0", "rack1") for group in map_.groups]
    levels = map_.grouping.evidence["levels"]
    assert [level["k"] for level in levels] == [4, 2]
    outer = levels[-1]["of_groups"]
    assert [row == rows[0] for row in rows] == [parent == outer[0] for parent in outer]


def test_a_sick_host_is_named_and_stays_in_its_rack(tmp_path: Path, attempts: Attempts) -> None:
    sick = []

    def add_delay(lab: Lab) -> None:
        sick.append(lab.hosts[5].name)
        set_value(lab, sick[0], "delay", "1ms")

    spec = "{name: maps-sick, racks: [6, 6, 4], delay_inside: 50us, delay_between: 1ms}"
    map_, truth = mapped(spec, tmp_path, attempts, seed=53, fault=add_delay)
    assert score_map(map_, truth).ari == 1.0
    assert map_.outliers is not None
    found = {host.host: host for host in map_.outliers.hosts}
    assert sick[0] in found and map_.outliers.hosts[0].host == sick[0]
    assert (
        found[sick[0]].excess_s or 0
    ) > 1e-3  # two ways of 1 ms, and no reading is faster than the network
    assert found[sick[0]].slower == found[sick[0]].links == 15


@pytest.mark.long
def test_64_hosts_in_unequal_racks_of_two_rows_with_a_sick_one(tmp_path: Path, attempts: Attempts) -> None:
    racks = [12, 10, 9, 8, 8, 7, 6, 4]
    near = [
        {"racks": [i, j], "delay": "500us"}
        for row in ([0, 1, 2], [3, 4, 5, 6, 7])
        for i, j in combinations(row, 2)
    ]
    spec = {
        "name": "maps64",
        "racks": racks,
        "delay_inside": "50us",
        "delay_between": "4ms",
        "delay_pairs": near,
        "faults": [{"host": "rack1/3", "delay": "2ms"}],
    }
    map_, truth = mapped(json.dumps(spec), tmp_path, attempts, seed=54, probes=8)  # JSON is YAML
    score = score_map(map_, truth, plan_order(map_))
    assert score.ari == 1.0
    assert score.crossings == len(racks)
    levels = map_.grouping.evidence["levels"]
    assert [level["k"] for level in levels] == [8, 2]
    sick = [host.name for host in truth.hosts if host.rack == "rack1"][3]
    assert map_.outliers is not None and [host.host for host in map_.outliers.hosts] == [sick]
    found = map_.outliers.hosts[0]
    assert (found.excess_s or 0) > 3e-3  # two ways of 2 ms, less what a disturbed neighbour is thought to add
    assert found.slower == found.links == 63
    assert f"{sick} is slow towards everybody" in found.text


def test_a_slow_card_is_named_by_its_goodput_and_stays_in_its_rack(
    tmp_path: Path, attempts: Attempts
) -> None:
    slow = []

    def hold_back(lab: Lab) -> None:
        # Of a rack whose other links outnumber its own: what is usual there is known from them.
        slow.append(next(host.name for host in lab.truth().hosts if host.rack == "rack0"))
        set_value(lab, slow[0], "rate", "20Mbit/s")

    spec = "{name: maps-card, racks: [5, 3], delay_inside: 50us, delay_between: 1ms, host_rate: 200Mbit/s}"
    measuring = parse_measuring("rtt,goodput", goodput="tcp", size="1MB")
    map_, truth = mapped(spec, tmp_path, attempts, seed=55, fault=hold_back, measuring=measuring)
    assert score_map(map_, truth).ari == 1.0
    assert list(map_.layers.named()) == ["rtt", "beta"]
    beta = map_.layers.beta
    assert beta is not None and beta.outliers is not None
    found = beta.outliers.hosts[0]
    assert found.host == slow[0]
    assert found.ratio > 2.0  # ten, less what holds up the others on a busy machine
    assert found.slower == found.links == 7
    assert "little goodput towards everybody" in found.text
