"""Every latency method on one network with delays that are known: each within what docs/probing.md says of it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from netprobe.core.hosts import read_hosts_file
from netprobe.core.matrix import FloatMatrix
from netprobe.core.scan import Scan
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.probe.options import Latency, ScanOptions
from netprobe.probe.session import run_scan
from netprobe.probe.via import parse_via

pytestmark = pytest.mark.lab

SPEC = "{name: latency, racks: [2, 1], delay_inside: 50us, delay_between: 150us}"
ATTEMPTS = 3
MISSING = {
    "icmp": None if importlib.util.find_spec("scapy") else "scapy is not installed",
    "fping": None if shutil.which("fping") else "fping is not installed",
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=4) as made:
        yield made


def errors(lab: Lab, scan: Scan) -> FloatMatrix:
    """p10 less the configured RTT, cell by cell."""
    racks = {host.name: host.rack for host in lab.hosts}
    names = [host.name for host in scan.hosts]
    configured = [[100e-6 if racks[a] == racks[b] else 300e-6 for b in names] for a in names]
    found: FloatMatrix = scan.rtt_s.p10 - np.array(configured)
    return found


@pytest.mark.parametrize(
    ("latency", "ports", "stamps", "method", "tolerance_s"),
    [
        ("stamp", 3, "kernel", "stamp", 12e-6),
        ("tcp", 2, "kernel", "tcp-connect", 40e-6),
        ("icmp", 1, "kernel", "icmp", 20e-6),
        ("fping", 1, "user", "fping", 60e-6),
    ],
)
def test_a_method_reads_what_is_configured(
    lab: Lab, latency: Latency, ports: int, stamps: str, method: str, tolerance_s: float
) -> None:
    if MISSING.get(latency):
        pytest.skip(str(MISSING[latency]))
    options = ScanOptions(
        latency=latency, source_ports=ports, probes_per_visit=60, python=sys.executable, interface="eth0"
    )
    worst = []
    for _ in range(ATTEMPTS):  # a neighbour on a shared machine may hold the switch up for a while
        scan = run_scan(read_hosts_file(lab.hosts_path), parse_via(lab.via_template), options).scan
        assert scan.status == "ok"
        assert {(visit.method, visit.stamps) for visit in scan.visits} == {(method, stamps)}
        assert len(scan.visits) == 6 * ports
        parameters = scan.measurements[0].parameters
        assert parameters["family"] == "ipv4" and parameters["interface"] == "eth0"
        assert sorted(parameters["interfaces"]["eth0"]) == sorted(host.name for host in lab.hosts)
        assert (scan.port_spread_s is None) == (ports == 1)
        found = errors(lab, scan)
        assert np.nanmin(found) > -1e-6  # nothing is faster than the network
        worst.append(float(np.nanmax(found)))
        if worst[-1] < tolerance_s:
            return
    pytest.fail(f"largest errors of p10: {[f'{error * 1e6:.1f} us' for error in worst]}")
