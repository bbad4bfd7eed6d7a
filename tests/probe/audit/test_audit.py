"""The audit of hosts: what a real agent says, what a hostile one may say, and what makes a reading doubtful."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.scan import AuditReading, HostAudit
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.audit.audit import audit_warnings, parse_audit
from netprobe.probe.launchers.exec_launcher import LocalLauncher
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan
from tests.probe.conftest import AgentProcess, hosts_named, visit

ANSWER: dict[str, Any] = {
    "type": "audited", "wall_ns": 1, "load": 0.5, "cores": 2, "steal_ratio": 0.0, "busy_ratio": 0.5,
    "delay_p50_ns": 60000, "delay_p99_ns": 90000, "clock_source": "tsc", "congestion_control": "cubic",
    "raw_icmp": True, "interface": "eth0", "mtu": 1500, "driver": "ena", "speed": 25000,
    "programs": {"iperf3": "iperf 3.12", "fping": None},
}  # fmt: skip


def audit_of(*, end: dict[str, Any] | None = None, **changes: Any) -> HostAudit:
    audit = parse_audit(ANSWER | changes)
    return audit if end is None else audit.model_copy(update={"end": AuditReading(**end)})


def test_an_agent_tells_what_its_host_is_like(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    audits = []
    for programs in (True, False):
        agent.send({"type": "audit", "id": 1, "address": "127.0.0.1", "programs": programs})
        audits.append(parse_audit(agent.next()))
    begin, end = audits
    assert begin.cores >= 1 and 0 <= begin.start.delay_p50_s <= begin.start.delay_p99_s < 10
    assert set(begin.programs) == {"iperf3", "fping"} and end.programs == {}
    assert begin.steal_ratio is None, "a ratio needs two readings"
    assert end.busy_ratio is not None and 0 <= end.busy_ratio <= 1
    assert begin.clock_source and begin.congestion_control
    agent.send({"type": "resolve", "id": 2})
    assert isinstance(agent.next()["addresses"], list)


def test_a_scan_has_the_audits_of_both_its_ends() -> None:
    scan = run_scan(hosts_named("a", "b"), LocalLauncher(), ScanOptions(probes_per_visit=10)).scan
    for audit in (*(host.audit for host in scan.hosts), scan.controller):
        assert audit is not None and audit.end is not None and audit.busy_ratio is not None
    off = run_scan(hosts_named("a", "b"), LocalLauncher(), ScanOptions(probes_per_visit=10, audit=False)).scan
    assert off.controller is None and off.hosts[0].audit is None and off.warnings == []


@given(
    key=st.sampled_from([*ANSWER]),
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
    | st.dictionaries(st.text(), st.text() | st.integers()),
)  # fmt: skip
def test_whatever_a_host_says_is_an_audit_or_a_fault_of_the_protocol(key: str, value: object) -> None:
    try:
        audit = parse_audit(ANSWER | {key: value})
    except ProtocolError:
        return
    texts = [audit.clock_source, audit.driver, audit.interface, *audit.programs, *audit.programs.values()]
    assert all(text is None or text.isprintable() for text in texts)
    assert audit.steal_ratio is None or 0 <= audit.steal_ratio <= 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"load": 9.0}, "busy before the scan began (load over 2 a core): b"),
        ({"steal_ratio": 0.12}, "took CPU time away (up to 12 %) from b"),
        ({"delay_p50_ns": 8_000_000}, "sleeps ended more than 5 ms late (median): b"),
        ({"clock_source": "hpet"}, "a slow clock (hpet): b"),
        ({"mtu": 9001}, "the MTU differs: 1500 on most hosts, 9001 on b"),
    ],
)
def test_what_makes_a_host_doubtful_is_said_with_its_name(changes: dict[str, Any], says: str) -> None:
    audits = {0: audit_of(), 1: audit_of(**changes), 2: audit_of()}
    (text,) = audit_warnings(["a", "b", "c"], audits, audit_of(), [])
    assert says in text


def test_nothing_is_said_of_hosts_that_are_well() -> None:
    audits = {i: audit_of() for i in range(3)}
    assert audit_warnings(["a", "b", "c"], audits, audit_of(), [visit(0, 1, [1e-4])]) == []


def test_a_busy_controller_poor_stamps_and_clock_steps_are_said() -> None:
    visits = [
        visit(0, 1, [1e-4], stamps="user"),
        visit(1, 2, [1e-4], sent=5, received=5, rejected=4),
        visit(0, 2, [1e-4], sent=5, received=5, rejected=1),
    ]
    busy = audit_of(load=7.5)
    load, stamps, clock = audit_warnings(["a", "b", "c"], {}, busy, visits)
    assert "the controller was busy before the scan began (load 7.5 on 2 cores)" in load
    assert stamps.startswith("user-space stamps in what a measured")
    assert "most of them with c" in clock


def test_probes_answered_twice_are_told_of_the_host_that_has_the_most() -> None:
    reading = [1e-4] * 100
    visits = [
        visit(0, 1, reading, duplicates=30),
        visit(1, 2, reading, duplicates=30),
        visit(0, 2, reading, duplicates=1),
        visit(2, 0, [], reason="no answer"),
    ]
    (said,) = audit_warnings(["a", "b", "c"], {}, None, visits)
    assert said.startswith("30 % of the probes to and from b were answered twice")
    assert audit_warnings(["a", "b", "c"], {}, None, visits[2:]) == []


@pytest.mark.parametrize(
    ("method", "level"), [("fping", "user"), ("tcp-connect", "user"), ("icmp", "kernel_rx")]
)
def test_poor_stamps_are_said_of_every_method(method: str, level: str) -> None:
    visits = [visit(i, j, [1e-4], stamps=level, method=method) for i, j in ((0, 1), (1, 0))]
    (said,) = audit_warnings(["a", "b"], {}, None, visits)
    what = {"user": "user-space stamps", "kernel_rx": "stamps on receipt only"}[level]
    assert said.startswith(f"{what} in what a, b measured")
