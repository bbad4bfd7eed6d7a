"""ICMP echoes: scapy travels, is believed in nothing but packets, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import PlatformError
from netprobe.probe.agent.icmp import packets as icmp_packets
from netprobe.probe.agent.messages import PERMISSION
from netprobe.probe.fleet.connection import TaskFailedError
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.fleet.scapy_archive import scapy_archive
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.methods.icmp import Icmp
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome
from netprobe.probe.scan.session import run_scan
from tests.probe.conftest import AgentProcess, hosts_named
from tests.properties import examples

needs_scapy = pytest.mark.skipif(importlib.util.find_spec("scapy") is None, reason="scapy is not installed")
PAYLOAD = bytes(range(16))


def may_open_raw_sockets() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
@needs_scapy
@pytest.mark.skipif(not may_open_raw_sockets(), reason="raw sockets need CAP_NET_RAW")
def test_a_scan_by_icmp_leaves_nothing_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    options = ScanOptions(latency="icmp", probes_per_visit=20, timeout_s=10)
    scan = run_scan(hosts_named("a", "b"), parse_via("local"), options).scan
    assert scan.status == "ok"
    assert {(v.method, v.stamps, v.sent, v.received, v.src_port) for v in scan.visits} == {
        ("icmp", "kernel", 20, 20, None)
    }
    assert 0 < scan.rtt_s.p10[0, 1] < 10
    assert scan.measurements[0].parameters["scapy"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_a_host_without_the_capability_has_a_reason(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent(prefix=("setpriv", "--bounding-set", "-net_raw"))
    agent.send({"type": "icmp_ready", "id": 1, "address": "127.0.0.1", "count": 5})
    answer = agent.next()
    assert (answer["type"], answer["code"]) == ("failed", PERMISSION)


async def _reason(error: Exception) -> str:
    class Refusing:
        async def request(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
            if message["type"] == "archive":
                return {}
            raise error

    member = Member(index=0, outcome=HostOutcome(host=hosts_named("a")[0]), port=9)
    member.connection = Refusing()  # type: ignore[assignment]
    return (await Icmp(ScanOptions(latency="icmp")).prepare([member]))[0]


@needs_scapy
def test_the_reason_says_what_to_do() -> None:
    said = asyncio.run(_reason(TaskFailedError("not allowed", PERMISSION)))
    assert "CAP_NET_RAW" in said and "--latency stamp" in said
    assert "within 120 s" in asyncio.run(_reason(TimeoutError()))


def test_without_scapy_here_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(PlatformError, match=r"netprobe-fleet\[icmp\]"):
        run_scan(hosts_named("a", "b"), parse_via("local"), ScanOptions(latency="icmp"))


@needs_scapy
def test_the_archive_is_small_and_holds_no_tables() -> None:
    assert len(scapy_archive()) < 600_000
    assert b"libs/manuf" not in scapy_archive()


def test_an_archive_has_a_limit(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    part = base64.b64encode(bytes(700_000)).decode()
    said = []
    for number in range(30):
        message = {"type": "archive", "id": number, "name": "x", "data": part, "last": False}
        agent.send(message)
        said.append(agent.next())
    assert said[22]["bytes"] == 23 * 700_000
    assert "an archive of more than" in said[-1]["reason"]


@needs_scapy
@pytest.mark.parametrize("ipv6", [False, True])
def test_requests_are_echoes_and_replies_are_read(ipv6: bool) -> None:
    icmp_packets.load()
    built = icmp_packets.build_echo(0x1234, 7, PAYLOAD, ipv6)
    assert len(built) == 8 + 16 and built[0] == (128 if ipv6 else 8)
    assert built[4:8] == b"\x12\x34\x00\x07" and built[8:] == PAYLOAD
    reply = bytes([129 if ipv6 else 0]) + built[1:]
    header = b"" if ipv6 else bytes.fromhex("450000 2c000040004001 0000 7f000001 7f000001".replace(" ", ""))
    assert icmp_packets.parse_echo(header + reply, ipv6) == (0x1234, 7, PAYLOAD)
    assert icmp_packets.parse_echo(header + built, ipv6) is None
    assert icmp_packets.parse_echo(header + b"\x03\x01" + reply[2:], ipv6) is None


@needs_scapy
@examples(60)
@given(st.binary(max_size=120), st.booleans(), st.booleans())
def test_anything_that_comes_is_read_or_is_nothing(data: bytes, ipv6: bool, framed: bool) -> None:
    icmp_packets.load()
    found = icmp_packets.parse_echo((b"\x45" if framed else b"") + data, ipv6)
    assert found is None or (
        0 <= found[0] < 1 << 16 and 0 <= found[1] < 1 << 16 and isinstance(found[2], bytes)
    )


@needs_scapy
@examples(60)
@given(st.binary(max_size=120), st.integers(0, 80))
def test_an_error_is_about_a_packet_of_ours_or_is_nothing(data: bytes, place: int) -> None:
    icmp_packets.load()
    probe = icmp_packets.build_udp("10.0.0.1", "10.0.0.9", (40_000, 9), 3, 77, b"p" * 40)
    header = bytes.fromhex("4500005800000000400100000a0000050a000001")
    error = header + bytes([11, 0, 0, 0, 0, 0, 0, 0]) + probe[:60]
    assert icmp_packets.parse_error(error) == ("10.0.0.5", 11, 0, 0, 77, (40_000, 9))
    for text in (data, error[:place] + data, error[:place] + data + error[place + len(data) :]):
        found = icmp_packets.parse_error(text)
        assert found is None or (found[1] in (3, 11) and 0 <= found[3] < 1 << 16)
