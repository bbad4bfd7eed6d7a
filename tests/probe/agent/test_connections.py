"""Ports and connections of an agent: which port and address, who is let in, and how connects are waited for."""

from __future__ import annotations

import errno
import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import greetings, listening, tcp_connect
from netprobe.probe.agent.collective.links import HELLO, Meeting
from netprobe.probe.agent.goodput import flow_sender
from netprobe.probe.agent.greetings import MAX_PENDING, Greetings, listen
from netprobe.probe.agent.listening import bind_in_range, bind_source
from netprobe.probe.agent.tcp_connect import ConnectSeries

MS = 10**6


class Bound:
    """Stands for a socket: what it was bound to; ``errors`` are those of addresses and ports."""

    family, type = socket.AF_INET, socket.SOCK_DGRAM

    def __init__(self, errors: dict[Any, int]) -> None:
        self.errors, self.tried = errors, []  # type: ignore[var-annotated]

    def bind(self, where: tuple[str, int]) -> None:
        self.tried.append(where)
        code = self.errors.get(where, self.errors.get(where[0], self.errors.get(where[1], 0)))
        if code:
            raise OSError(code, "bound")


def test_the_first_free_port_of_the_range_is_taken() -> None:
    sock = Bound({5000: errno.EADDRINUSE, 5001: errno.EADDRINUSE})
    assert bind_in_range(sock, "10.0.0.7", (5000, 5002), "TCP") == "10.0.0.7"  # type: ignore[arg-type]
    assert sock.tried == [("10.0.0.7", port) for port in (5000, 5001, 5002)]
    with pytest.raises(OSError) as raised:
        bind_in_range(Bound({"10.0.0.7": errno.EADDRINUSE}), "10.0.0.7", (5000, 5001), "TCP")  # type: ignore[arg-type]
    assert raised.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize(("address", "any_"), [("192.0.2.1", "0.0.0.0"), ("2001:db8::1", "::")])
def test_an_address_that_is_not_here_is_bound_on_all(address: str, any_: str) -> None:
    sock = Bound({address: errno.EADDRNOTAVAIL, 5000: errno.EADDRINUSE})
    assert bind_in_range(sock, address, (5000, 5001), "TCP") == any_  # type: ignore[arg-type]
    assert sock.tried == [(address, 5000), (any_, 5000), (any_, 5001)]
    for code in (errno.EACCES, errno.EADDRNOTAVAIL):
        with pytest.raises(OSError) as raised:
            bind_in_range(Bound({address: errno.EADDRNOTAVAIL, any_: code}), address, (5000, 5000), "TCP")  # type: ignore[arg-type]
        assert raised.value.errno == code


def test_a_source_is_bound_to_its_port_or_to_one_that_is_not_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    sock = Bound({"192.0.2.1": errno.EADDRNOTAVAIL})
    bind_source(sock, "10.0.0.7", port=77)  # type: ignore[arg-type]
    bind_source(sock, "192.0.2.1")  # type: ignore[arg-type]
    bind_source(sock, "10.0.0.7", (5,), 78)  # type: ignore[arg-type]
    assert sock.tried == [("10.0.0.7", 77), ("192.0.2.1", 0), ("0.0.0.0", 0), ("10.0.0.7", 78)]
    with pytest.raises(OSError):
        bind_source(Bound({"10.0.0.7": errno.EACCES}), "10.0.0.7")  # type: ignore[arg-type]
    free = iter([5, 6, 7])
    monkeypatch.setattr(listening, "_free_port", lambda *_arguments: next(free))
    sock = Bound({6: errno.EADDRINUSE})
    bind_source(sock, "10.0.0.7", (5, 9))  # type: ignore[arg-type]
    assert sock.tried == [("10.0.0.7", 6), ("10.0.0.7", 7)]  # 5 is avoided, 6 was taken meanwhile
    monkeypatch.setattr(listening, "_free_port", lambda *_arguments: 5)
    with pytest.raises(OSError) as raised:
        bind_source(Bound({}), "10.0.0.7", (5,))  # type: ignore[arg-type]
    assert raised.value.errno == errno.EADDRINUSE
    monkeypatch.setattr(listening, "_free_port", lambda *_arguments: 8)
    with pytest.raises(OSError) as raised:
        bind_source(Bound({8: errno.EACCES}), "10.0.0.7", (5,))  # type: ignore[arg-type]
    assert raised.value.errno == errno.EACCES


@pytest.fixture
def door() -> Iterator[tuple[socket.socket, Any]]:
    sock = listen("127.0.0.1", (0, 0), 16)
    yield sock, select.poll()
    sock.close()


def events(poll: Any, known: Greetings) -> list[tuple[socket.socket, bytes]]:
    return [
        found for descriptor, _events in poll.poll(10_000) if (found := known.ready(descriptor)) is not None
    ]


def test_a_caller_is_let_in_with_its_first_bytes_and_no_more(door: Any) -> None:
    listener, poll = door
    known = Greetings(listener, 4, poll)
    assert listener.getblocking() is False
    with socket.create_connection(listener.getsockname()) as caller:
        assert events(poll, known) == [] and len(known.pending) == 1
        caller.sendall(b"ab")
        assert events(poll, known) == []
        caller.sendall(b"cdefg")
        ((sock, first),) = events(poll, known)
        assert first == b"abcd" and sock.recv(10) == b"efg" and not known.pending
        assert known.ready(sock.fileno()) is None  # it is nobody's any more
        sock.close()
    with socket.create_connection(listener.getsockname()) as caller:
        events(poll, known)
        caller.sendall(b"ab")
        events(poll, known)
        caller.shutdown(socket.SHUT_WR)
        assert events(poll, known) == [] and not known.pending
        assert caller.recv(1) == b""


def test_who_says_nothing_for_two_seconds_is_closed(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listener, poll = door
    clock = SimpleNamespace(now=10**12, sleep=time.sleep)
    clock.monotonic_ns = lambda: clock.now
    monkeypatch.setattr(greetings, "time", clock)
    known = Greetings(listener, 4, poll)
    with socket.create_connection(listener.getsockname()) as caller:
        events(poll, known)
        clock.now += 2000 * MS
        known.close_late()
        assert len(known.pending) == 1
        clock.now += 1
        known.close_late()
        assert not known.pending and caller.recv(1) == b""


def test_no_more_than_so_many_may_say_nothing(door: Any) -> None:
    listener, poll = door
    known = Greetings(listener, 4, poll)
    callers = []
    for _ in range(MAX_PENDING + 1):
        callers.append(socket.create_connection(listener.getsockname()))
        events(poll, known)
    assert len(known.pending) == MAX_PENDING and callers[-1].recv(1) == b""
    known.close()
    for caller in callers[:-1]:
        assert caller.recv(1) == b""
        caller.close()
    callers[-1].close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", callers[0].fileno() or 1), 1)


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


TOKENS = [bytes([number]) * 16 for number in range(3)]


def meeting(place: int, limit_ns: int = 300 * MS, channels: int = 2) -> tuple[Meeting, int]:
    sock = listen("127.0.0.1", (0, 0), 16)
    made = Meeting(sock, TOKENS[place], place, "127.0.0.1", channels, limit_ns)
    return made, int(sock.getsockname()[1])


def test_a_meeting_takes_the_expected_and_nobody_else() -> None:
    made, port = meeting(0, limit_ns=20_000 * MS)
    callers = []
    for token, peer, channel in (
        (TOKENS[1], 1, 0), (TOKENS[0], 2, 0), (TOKENS[0], 1, 2), (TOKENS[0], 1, 1), (TOKENS[0], 1, 0),
    ):  # fmt: skip
        callers.append(socket.create_connection(("127.0.0.1", port)))
        callers[-1].sendall(HELLO.pack(token, peer, channel))
    made.run([], [1])
    assert set(made.links) == {(1, 0), (1, 1)} and made.faults == []
    assert all(made.links[key].key == key and made.links[key].peer == 1 for key in made.links)
    for caller, number in zip(callers, range(5)):
        caller.settimeout(0.05 if number > 2 else 10)
        if number > 2:
            with pytest.raises(TimeoutError):
                caller.recv(1)
        else:
            assert caller.recv(1) == b""
        caller.close()
    for link in made.links.values():
        assert link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        link.sock.close()
    with socket.socket() as sock:  # the port is shut
        assert sock.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_who_does_not_come_and_who_refuses_is_named() -> None:
    made, _port = meeting(0)
    began = time.monotonic()
    made.run([], [1, 2])
    assert time.monotonic() - began < 30
    assert [peer for peer, _reason in made.faults] == [1, 1, 2, 2] and made.links == {}
    made, _port = meeting(0, limit_ns=20_000 * MS)
    with socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        made.run([(2, "127.0.0.1", shut.getsockname()[1], TOKENS[2].hex())], [])
    assert {peer for peer, _reason in made.faults} == {2}
    assert "Connection refused" in made.faults[0][1]


def test_a_call_begins_with_the_called_hosts_token_and_the_callers_place() -> None:
    made, _port = meeting(1, limit_ns=20_000 * MS)
    with listen_blocking() as listener:
        made.run([(0, "127.0.0.1", listener.getsockname()[1], TOKENS[0].hex())], [])
        said = []
        for _ in range(2):
            sock, _peer = listener.accept()
            said.append(HELLO.unpack(sock.recv(100)))
            sock.close()
    assert sorted(said) == [(TOKENS[0], 1, 0), (TOKENS[0], 1, 1)] and set(made.links) == {(0, 0), (0, 1)}
    for link in made.links.values():
        link.sock.close()


def listen_blocking() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(8)
    return sock


@pytest.mark.parametrize(("count", "streams"), [(1_000_003, 3), (2, 4)])
def test_a_number_of_bytes_is_shared_out_and_all_of_it_arrives(count: int, streams: int) -> None:
    with listen_blocking() as listener:
        sender = flow_sender.FlowSender(
            "127.0.0.1", listener.getsockname()[1], "127.0.0.1", TOKENS[0], streams
        )
        socks = [listener.accept()[0] for _ in range(streams)]
        got = []

        def read() -> None:
            for sock in socks:
                data = b""
                while part := sock.recv(1 << 16):
                    data += part
                got.append(data)
                sock.close()

        reading = threading.Thread(target=read)
        reading.start()
        answer = sender.run(0, 30_000 * MS, count)
        reading.join(30)
    assert all(data[:16] == TOKENS[0] for data in got)
    sizes = sorted(len(data) - 16 for data in got)
    assert sum(sizes) == count and sizes[-1] - sizes[0] <= 1
    assert answer["duration_ns"] < 30_000 * MS and answer["retransmits"] >= 0 and answer["congestion"]
    assert answer["busiest_ns"] <= answer["cpu_ns"] and answer["type"] == "sent"


def test_a_timed_flow_begins_when_told_lasts_as_long_and_ends_by_a_reset() -> None:
    with listen_blocking() as listener:
        sender = flow_sender.FlowSender("127.0.0.1", listener.getsockname()[1], "127.0.0.1", TOKENS[0], 1)
        sock, _peer = listener.accept()
        assert sock.recv(16, socket.MSG_WAITALL) == TOKENS[0]
        at = time.monotonic_ns() + 150 * MS
        found: dict[str, Any] = {}
        running = threading.Thread(target=lambda: found.update(sender.run(at, 100 * MS, 0)))
        running.start()
        first = sock.recv(1)
        assert time.monotonic_ns() >= at and first
        running.join(30)
        assert 100 * MS <= found["duration_ns"] < 20_000 * MS
        with pytest.raises(ConnectionResetError):
            while sock.recv(1 << 20):
                pass
        sock.close()


def test_a_flow_that_cannot_connect_says_where_and_why() -> None:
    with socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        port = shut.getsockname()[1]
        with pytest.raises(OSError) as raised:
            flow_sender.FlowSender("127.0.0.1", port, "192.0.2.1", TOKENS[0], 1)
    assert raised.value.errno == errno.ECONNREFUSED and f"127.0.0.1 port {port} (TCP)" in str(raised.value)


def test_segments_sent_again_are_summed_over_the_streams() -> None:
    class Told:
        def __init__(self, count: int) -> None:
            self.info = struct.pack("=26I", *[99] * 25, count)  # tcpi_total_retrans at byte 100

        def getsockopt(self, _level: int, _option: int, size: int) -> bytes:
            return self.info[:size]

    assert flow_sender._retransmits([Told(2), Told(5)]) == 7  # type: ignore[list-item]
    assert flow_sender._retransmits([Told(2), object()]) is None  # type: ignore[list-item]
