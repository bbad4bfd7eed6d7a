"""Connects on a kernel that says what it is told to: when they leave, how long they are waited for, what they are."""

from __future__ import annotations

import errno
import itertools
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import tcp_connect
from netprobe.probe.agent.tcp_connect import ConnectSeries

MS = 10**6


class Connects:
    """Stands for the clock, for poll and for the sockets of connects; the kernel says what ``outcomes`` has.

    An outcome is (code of connect, ns until it is known or None, code then, TCP_INFO's RTT in ns, retransmits).
    """

    def __init__(self, outcomes: Any) -> None:
        self.outcomes, self.now = outcomes, 10**12
        self.at: list[int] = []
        self.options: list[Any] = []
        self.bound: list[Any] = []
        self.family = socket.AF_INET

    def monotonic_ns(self) -> int:
        self.now += 1000
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def connect_ex(self, _peer: Any) -> int:
        self.current = self.outcomes(len(self.at))
        self.at.append(self.now)
        return int(self.current[0])

    def poll(self, *timeout: float) -> Any:
        if not timeout:
            return self
        wait = self.current[1]
        if wait is None or wait > timeout[0] * 1e6:
            self.now += round(timeout[0] * 1e6)
            return []
        self.now += wait
        return [(1, 4)]

    def register(self, *_arguments: Any) -> None:
        """Whatever is watched."""

    def setsockopt(self, *arguments: Any) -> None:
        self.options.append(arguments)

    def getsockopt(self, *_arguments: Any) -> int:
        return int(self.current[2])

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.7", 4242

    def setblocking(self, on: bool) -> None:
        assert not on

    def close(self) -> None:
        """As the kernel does."""


def connected(monkeypatch: pytest.MonkeyPatch, outcomes: Any, **fields: Any) -> tuple[Any, Any, Connects]:
    kernel = Connects(outcomes)
    monkeypatch.setattr(tcp_connect, "time", kernel)
    monkeypatch.setattr(tcp_connect, "Pacer", lambda interval, _seed: Paced(kernel, interval))
    monkeypatch.setattr(tcp_connect, "select", SimpleNamespace(poll=kernel.poll, POLLOUT=4))
    monkeypatch.setattr("netprobe.probe.agent.tcp_connect.socket.socket", lambda *_arguments: kernel)
    monkeypatch.setattr(tcp_connect, "bind_source", lambda *a, **k: kernel.bound.append((a[1:], k)))
    monkeypatch.setattr(tcp_connect, "tcp_info", lambda _sock: kernel.current[3:])
    values = {"count": 10, "interval_ns": 10 * MS, "timeout_ns": 1000 * MS, "best": "kernel", **fields}
    answer, samples = ConnectSeries("10.0.0.2", 9, "10.0.0.7", **values).run()
    return answer, samples, kernel


class Paced:
    """Exact intervals."""

    def __init__(self, kernel: Connects, interval: int) -> None:
        self.kernel, self.interval = kernel, interval
        self.due = kernel.now

    def advance(self) -> None:
        self.due += self.interval


GOOD = (errno.EINPROGRESS, 200_000, 0, 100_000, 0)


def test_connects_leave_in_time_from_one_port_and_end_by_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, samples, kernel = connected(monkeypatch, lambda number: GOOD, avoid=[7])
    assert (answer["sent"], answer["received"], answer["unsent"], answer["reason"]) == (10, 10, 0, None)
    assert [rtt for _seq, _sent, rtt in samples] == [100_000] * 10 and answer["source_port"] == 4242
    gaps = [after - before for before, after in itertools.pairwise(kernel.at[1:])]
    assert all(abs(gap - 10 * MS) < MS for gap in gaps) and kernel.at[1] - kernel.at[0] < MS
    assert kernel.bound == [(("10.0.0.7", [7]), {})] + [(("10.0.0.7",), {"port": 4242})] * 10
    lingers = [option for option in kernel.options if option[1] == socket.SO_LINGER]
    assert lingers == [(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")] * 11  # on, for no time
    assert 90 * MS < answer["duration_ns"] < 110 * MS


@pytest.mark.parametrize(("way_ms", "patience_ms"), [(2, 50), (20, 80), (400, 1000)])
def test_a_connect_is_waited_for_four_of_the_longest(
    monkeypatch: pytest.MonkeyPatch, way_ms: int, patience_ms: int
) -> None:
    way = (errno.EINPROGRESS, way_ms * MS, 0, 0, 0)
    silent = (errno.EINPROGRESS, None, 0, 0, 0)
    _answer, _samples, kernel = connected(
        monkeypatch, lambda number: silent if number == 2 else way, interval_ns=MS
    )
    assert abs(kernel.at[3] - kernel.at[2] - patience_ms * MS) < MS


def test_a_series_is_not_held_up_by_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    way, silent = (errno.EINPROGRESS, 300 * MS, 0, 0, 0), (errno.EINPROGRESS, None, 0, 0, 0)
    answer, _samples, kernel = connected(monkeypatch, lambda number: silent if number else way)
    # 1.5 intervals for each of the probes and four more, and two time-outs: 2.21 s; losses cost one second each.
    assert len(kernel.at) == 1 + 2 and answer["sent"] == 2


def test_two_that_fail_from_the_start_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = (errno.EINPROGRESS, MS, errno.ECONNREFUSED, 0, 0)
    answer, samples, kernel = connected(monkeypatch, lambda number: refused)
    assert len(kernel.at) == 2 and "ECONNREFUSED" in answer["reason"] and samples == []
    silent = (errno.EINPROGRESS, None, 0, 0, 0)
    answer, _samples, kernel = connected(monkeypatch, lambda number: silent)
    assert len(kernel.at) == 2 and answer["reason"] == "no answer to TCP"
    assert 2000 * MS <= answer["duration_ns"] < 2100 * MS
    # After an answer they are losses.
    for bad in (refused, silent):
        answer, _samples, kernel = connected(
            monkeypatch, lambda number, bad=bad: bad if number in (3, 4, 5) else GOOD
        )
        assert (answer["reason"], answer["received"], len(kernel.at)) == (None, 7, 11)


def test_a_lack_of_this_hosts_own_is_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    for lack in ((errno.EADDRNOTAVAIL, 0, 0, 0, 0), (errno.EINPROGRESS, MS, errno.ENOBUFS, 0, 0)):
        answer, _samples, _kernel = connected(
            monkeypatch, lambda number, lack=lack: lack if number in (3, 4, 5) else GOOD
        )
        assert (answer["unsent"], answer["sent"], answer["received"]) == (3, 7, 7)


def test_a_reset_that_came_after_the_handshake_is_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    reset = (errno.EINPROGRESS, 200_000, errno.ECONNRESET, 90_000, 0)
    answer, samples, _kernel = connected(monkeypatch, lambda number: reset if number % 2 else GOOD)
    assert answer["received"] == 10 and {rtt for _seq, _sent, rtt in samples} == {90_000, 100_000}
    before = (errno.EINPROGRESS, 200_000, errno.ECONNRESET, 0, 0)  # by a firewall: no handshake was made
    answer, _samples, _kernel = connected(monkeypatch, lambda number: before if number % 2 else GOOD)
    assert answer["received"] == 5 and answer["reason"] is None
    at_once = (0, 0, 0, 80_000, 0)
    answer, samples, _kernel = connected(monkeypatch, lambda number: at_once, best="user")
    assert answer["stamps"] == "user" and max(rtt for _seq, _sent, rtt in samples) < 5000
