"""Every latency method on one network with delays that are known. How near each reads is bench/latency.py's to say."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.options import Latency, ScanOptions
from netprobe.probe.scan.session import run_scan

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

# Apart by more than what a busy machine adds to the least of some readings in user space.
INSIDE_S, BETWEEN_S = 50e-6, 2e-3
SPEC = "{name: latency, racks: [2, 1], delay_inside: 50us, delay_between: 2ms}"
MISSING = {
    "icmp": None if importlib.util.find_spec("scapy") else "scapy is not installed",
    "fping": None if shutil.which("fping") else "fping is not installed",
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=4) as made:
        yield made


@pytest.mark.parametrize(
    ("latency", "ports", "stamps", "method"),
    [
        ("stamp", 3, "kernel", "stamp"),
        ("tcp", 2, "kernel", "tcp-connect"),
        ("icmp", 1, "kernel", "icmp"),
        ("fping", 1, "user", "fping"),
    ],
)
def test_a_method_reads_no_less_than_is_configured_and_tells_the_tiers_apart(
    lab: Lab, latency: Latency, ports: int, stamps: str, method: str
) -> None:
    if MISSING.get(latency):
        pytest.skip(str(MISSING[latency]))
    options = ScanOptions(
        latency=latency, source_ports=ports, probes_per_visit=60, python=sys.executable, interface="eth0"
    )
    scan = run_scan(read_hosts_file(lab.hosts_path), parse_via(lab.via_template), options).scan
    assert scan.status == "ok"
    assert {(visit.method, visit.stamps) for visit in scan.visits} == {(method, stamps)}
    assert len(scan.visits) == 6 * ports
    parameters = scan.measurements[0].parameters
    assert parameters["family"] == "ipv4" and parameters["interface"] == "eth0"
    assert sorted(parameters["interfaces"]["eth0"]) == sorted(host.name for host in lab.hosts)
    assert (scan.port_spread_s is None) == (ports == 1)
    racks = np.array([lab.host(host.name).rack for host in scan.hosts])
    inside, links = racks[:, None] == racks[None, :], ~np.eye(3, dtype=bool)
    least = scan.rtt_s.min
    # A busy machine makes a reading larger; nothing is faster than the network.
    assert np.all((scan.rtt_s.p10 >= least)[links])
    assert np.all((least - np.where(inside, 2 * INSIDE_S, 2 * BETWEEN_S))[links] > -1e-6)
    assert np.median(least[inside & links]) < np.median(least[~inside])


TWICE = """
name: twice
racks: [2, 1]
delay_inside: 50us
delay_between: 2ms
faults:
- {host: rack0/0, duplicate: 60%}
- {host: rack1/0, duplicate: 15%}
"""


@pytest.fixture(scope="module")
def twice() -> Iterator[Lab]:
    with temporary(parse_spec(TWICE), seed=4) as made:
        yield made


@pytest.mark.parametrize(
    ("latency", "method"), [("stamp", "stamp"), ("tcp", "tcp-connect"), ("icmp", "icmp"), ("fping", "fping")]
)
def test_packets_that_come_twice_lower_no_reading(twice: Lab, latency: Latency, method: str) -> None:
    if MISSING.get(latency):
        pytest.skip(str(MISSING[latency]))
    options = ScanOptions(latency=latency, probes_per_visit=60, python=sys.executable)
    outcome = run_scan(read_hosts_file(twice.hosts_path), parse_via(twice.via_template), options)
    scan = outcome.scan
    assert scan.status == "ok" and {visit.method for visit in scan.visits} == {method}
    (doubled,) = [fault.host for fault in twice.truth().faults if fault.duplicate_ratio == 0.6]
    warned = [text for text in scan.warnings if "were answered twice" in text]
    # A handshake has one answer, for anything that arrives, and fping counts its duplicates for itself.
    assert len(warned) == (latency in ("stamp", "icmp")) and all(str(doubled) in text for text in warned)
    racks = np.array([twice.host(host.name).rack for host in scan.hosts])
    inside, links = racks[:, None] == racks[None, :], ~np.eye(3, dtype=bool)
    least = scan.rtt_s.min
    assert np.all((least - np.where(inside, 2 * INSIDE_S, 2 * BETWEEN_S))[links] > -1e-6)
    assert np.median(least[inside & links]) < np.median(least[~inside])
