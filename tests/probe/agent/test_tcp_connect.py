"""Handshakes over real sockets of this machine."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from netprobe.probe.agent.tcp_connect import ConnectSeries, Listener, open_port, shut_port
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import Event, ScanWarning
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan
from tests.probe.conftest import hosts_named, wait_until


@pytest.fixture
def listener() -> Iterator[Listener]:
    opened = Listener("127.0.0.1", (0, 0))
    yield opened
    opened.close()
    assert not opened.thread.is_alive()


def series(port: int, *, count: int = 20, best: str = "kernel", **fields: Any) -> tuple[dict[str, Any], Any]:
    values = {"interval_ns": 500_000, "timeout_ns": 10**10, **fields}
    return ConnectSeries("127.0.0.1", port, "127.0.0.1", count=count, best=best, **values).run()


@pytest.mark.parametrize("best", ["kernel", "user"])
def test_a_series_reads_and_says_who_read(listener: Listener, best: str) -> None:
    answer, samples = series(listener.port, best=best)
    assert (answer["sent"], answer["received"], answer["stamps"]) == (20, 20, best)
    assert answer["reason"] is None and len(samples) + answer["rejected"] == 20
    assert all(0 < rtt < 10**10 for _seq, _sent, rtt in samples)
    assert wait_until(lambda: listener.accepted == 21, 30)


def test_nothing_is_left_in_time_wait_and_all_came_from_one_port(listener: Listener) -> None:
    answer, _samples = series(listener.port)
    end = f"0100007F:{listener.port:04X}"

    def waiting() -> list[str]:
        with open("/proc/net/tcp") as table:
            lines = [line.split() for line in table if end in line]
        return [line[1] for line in lines if line[3] != "0A"]

    assert wait_until(lambda: not waiting(), 30)
    again, _samples = series(listener.port, avoid=[answer["source_port"]])
    assert answer["source_port"] != again["source_port"] > 0


def test_the_port_answers_nothing_and_takes_no_more_than_it_needs(listener: Listener) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        with (
            contextlib.suppress(ConnectionResetError, BrokenPipeError),
            socket.create_connection(("127.0.0.1", listener.port), timeout=60) as sock,
        ):
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert sock.recv(100) == b""
    assert wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, 30)


def test_a_closed_port_and_a_silent_one_end_the_series_early(listener: Listener) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        refusing = sock.getsockname()[1]
        answer, samples = series(refusing, count=1000)
        assert (answer["received"], samples) == (0, []) and "ECONNREFUSED" in answer["reason"]
        sock.listen(0)
        full = [socket.socket() for _ in range(3)]
        for one in full:  # the queue of what nobody accepts is full: a further SYN is dropped
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", refusing))
        answer, samples = series(refusing, count=1000, timeout_ns=3 * 10**8)
        assert answer["reason"] == "no answer to TCP" and answer["sent"] < 1000
        for one in full:
            one.close()


def test_the_port_is_open_only_while_it_is_asked_for() -> None:
    resources: dict[str, Any] = {}
    answer, _ = open_port({"address": "127.0.0.1", "ports": [0, 0]}, resources)
    series(answer["port"], count=3)
    assert wait_until(lambda: resources["listener"].accepted == 4, 30)
    assert shut_port({}, resources)[0]["accepted"] == 4
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", answer["port"])) != 0
    assert shut_port({}, resources)[0]["accepted"] == 0


def test_a_scan_by_handshakes_from_several_ports() -> None:
    events: list[Event] = []
    options = ScanOptions(latency="tcp", source_ports=3, probes_per_visit=10, interval_s=0.0005)
    outcome = run_scan(hosts_named("a", "b"), parse_via("local"), options, on_event=events.append)
    scan = outcome.scan
    assert scan.status == "ok" and {visit.method for visit in scan.visits} == {"tcp-connect"}
    warnings = [event.text for event in events if isinstance(event, ScanWarning)]
    assert not [text for text in warnings if " connections made " in text]  # all were the hosts' own
    for src in ("a", "b"):
        assert len({visit.src_port for visit in scan.visits if visit.src == src}) == 3
    measurement = scan.measurements[0]
    assert (measurement.method, measurement.statistic) == ("tcp-connect", "p10")
    assert measurement.parameters["over_source_ports"] == "median"
    # The statistic names the matrix that holds for the links, however many it was made over.
    assert getattr(scan.rtt_s, measurement.statistic)[0, 1] > 0
    assert measurement.parameters["family"] == "ipv4"
    assert scan.port_spread_s is not None and scan.port_spread_s[0, 1] >= 0
