"""Hosts whose UDP is dropped: scans and the doctor say that TCP works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from netprobe.core.errors import NothingMeasuredError
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.pipeline.doctor.hosts import examine_hosts
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.methods.blocked import BY_TCP
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan

pytestmark = pytest.mark.lab
OPTIONS = ScanOptions(probes_per_visit=10, python=sys.executable, timeout_s=0.3)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec("{name: no-udp, racks: [4]}"), seed=1) as made:
        yield made


def drop_udp(namespace: str) -> None:
    """What comes in by UDP is thrown away by a routing rule before that of local addresses."""
    for rule in ("add pref 100 lookup local", "del pref 0", "add pref 10 iif eth0 ipproto udp blackhole"):
        subprocess.run(["ip", "-n", namespace, "rule", *rule.split()], check=True, timeout=20)


def test_udp_that_is_dropped_is_told_from_a_host_that_is_gone(lab: Lab) -> None:
    hosts, via = read_hosts_file(lab.hosts_path), parse_via(lab.via_template)
    assert examine_hosts(hosts, launcher=via, options=OPTIONS).exit_code == 0
    drop_udp(hosts[2].target)
    scan = run_scan(hosts, via, OPTIONS).scan
    (said,) = [text for text in scan.warnings if "--latency tcp" in text]
    assert said.startswith(f"{hosts[2].name}: ")
    lacks = [lack for lack in examine_hosts(hosts, launcher=via, options=OPTIONS).lacks if "UDP" in lack.what]
    assert [lack.hosts for lack in lacks] == [(hosts[2].name,)]
    for host in (hosts[0], hosts[1], hosts[3]):
        drop_udp(host.target)
    with pytest.raises(NothingMeasuredError, match="give --latency tcp"):
        run_scan(hosts, via, OPTIONS)
    by_tcp = run_scan(hosts, via, replace(OPTIONS, latency="auto")).scan
    assert (by_tcp.status, by_tcp.measurements[0].method) == ("ok", "tcp-connect")
    assert BY_TCP in by_tcp.warnings
