"""Hops and path MTU through two real routers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from netprobe.core.documents.scan import PathReading
from netprobe.core.hosts import make_host
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.methods.path import Path, Trace
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import ScanOutcome
from netprobe.probe.rounds.chooser import RoundRobin
from netprobe.probe.scan.session import Phase, run_scan
from tests.probe.routed import ADDRESSES, MIDDLE_MTU, ROUTERS, in_namespace, middle_mtu, routed_hosts

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def prefix() -> Iterator[str]:
    with routed_hosts() as made:
        yield made


def scan(prefix: str, family: int, trace: Trace = "udp", timeout_s: float = 5.0) -> ScanOutcome:
    """By a short time-out where packets vanish, and are waited for."""
    options = ScanOptions(probes_per_visit=10, python=sys.executable, timeout_s=timeout_s)
    hosts = [
        make_host(name, target=prefix + name, address=address[family]) for name, address in ADDRESSES.items()
    ]
    phases = [
        Phase(method=latency_method(options), chooser=RoundRobin()),
        Phase(method=Path(options, trace), chooser=RoundRobin()),
    ]
    return run_scan(hosts, parse_via("ip netns exec {target}"), options, phases=phases)


def way(outcome: ScanOutcome, src: int = 0) -> PathReading:
    (reading,) = (visit.path for visit in outcome.visits if visit.path is not None and visit.src == src)
    return reading


@pytest.mark.parametrize("family", [0, 1], ids=["ipv4", "ipv6"])
def test_each_hop_is_seen_and_the_narrow_link_is_found(prefix: str, family: int) -> None:
    outcome = scan(prefix, family)
    assert way(outcome) == PathReading(
        hops=3, addresses=[*ROUTERS[family], ADDRESSES["h2"][family]], mtu_bytes=MIDDLE_MTU
    )
    assert way(outcome, 1).hops == 3 and way(outcome, 1).mtu_bytes == MIDDLE_MTU
    document = outcome.scan
    assert document.status == "ok" and [m.id for m in document.measurements] == ["rtt", "path"]
    assert document.measurements[1].method == "udp-ttl"
    assert document.hops is not None and document.path_mtu_bytes is not None
    np.testing.assert_array_equal(document.hops, [[np.nan, 3], [3, np.nan]])
    np.testing.assert_array_equal(document.path_mtu_bytes, [[np.nan, 1400], [1400, np.nan]])


@pytest.mark.skipif(importlib.util.find_spec("scapy") is None, reason="scapy is not installed")
def test_scapy_sees_the_same_way(prefix: str) -> None:
    outcome = scan(prefix, 0, "scapy")
    assert way(outcome) == PathReading(
        hops=3, addresses=[*ROUTERS[0], ADDRESSES["h2"][0]], mtu_bytes=MIDDLE_MTU
    )
    assert outcome.scan.measurements[1].method == "scapy-ttl"


def test_packets_that_vanish_without_a_word_are_too_large_all_the_same(prefix: str) -> None:
    middle_mtu(prefix, "far end")
    try:
        outcome = scan(prefix, 0, timeout_s=0.3)
    finally:
        middle_mtu(prefix, "both")
    # A veth drops what is longer than its MTU and a VLAN tag of four bytes: so much really gets through.
    assert way(outcome).mtu_bytes == MIDDLE_MTU + 4 and way(outcome).hops == 3


def test_a_silent_router_is_a_hop_without_an_address(prefix: str) -> None:
    in_namespace(prefix + "r1", "echo 0 > /proc/sys/net/ipv4/ip_default_ttl || true")
    in_namespace(
        prefix + "r1", "ip route add blackhole 10.91.1.2/32 metric 1 table 99; ip rule add iif lo table 99"
    )
    try:
        outcome = scan(prefix, 0, timeout_s=0.3)
    finally:
        in_namespace(prefix + "r1", "ip rule del iif lo table 99")
    assert way(outcome).addresses == [None, ROUTERS[0][1], ADDRESSES["h2"][0]]
