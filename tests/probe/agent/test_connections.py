"""Ports and connections of an agent: which port and address, who is let in, and what a flow sends."""

from __future__ import annotations

import errno
import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import greetings, listening
from netprobe.probe.agent.collective.links import HELLO, Meeting
from netprobe.probe.agent.goodput import flow_sender
from netprobe.probe.agent.greetings import MAX_PENDING, Greetings, listen
from netprobe.probe.agent.listening import bind_in_range, bind_source

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


@pytest.mark.parametrize("streams", [1, 3])
def test_what_was_delivered_is_what_arrived(streams: int) -> None:
    with listen_blocking() as listener:
        sender = flow_sender.FlowSender(
            "127.0.0.1", listener.getsockname()[1], "127.0.0.1", TOKENS[0], streams
        )
        socks = [listener.accept()[0] for _ in range(streams)]
        got = [0] * streams

        def read(place: int) -> None:
            with suppress(ConnectionResetError):
                while part := len(socks[place].recv(1 << 16)):
                    got[place] += part

        reading = [threading.Thread(target=read, args=(place,)) for place in range(streams)]
        for thread in reading:
            thread.start()
        answer = sender.run(0, 200 * MS, 0, 5 * MS)
        for thread in reading:
            thread.join(30)
    marks = answer["delivered"]
    if not marks:
        pytest.skip("this kernel does not tell")
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(marks))
    # Acknowledged before the end: no more than was read and what a receiver's buffer (tcp_rmem) can hold unread.
    assert 0 < marks[-1][1] <= sum(got) + streams * (1 << 26)


def test_segments_become_bytes_by_those_that_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two streams, of 1,000 and 500 bytes a segment: nothing, then a leap, then nothing new, then the rest."""
    told = iter(
        [
            (0, 0, 0),
            (0, 0, 0),
            (3, 4000, 4),
            (8, 5000, 10),
            (3, 4000, 4),
            (8, 5000, 10),
            (7, 9000, 9),
            (9, 6000, 12),
        ]
    )
    monkeypatch.setattr(flow_sender, "_segments", lambda _sock: next(told))
    clock = iter(range(0, 10**9, 10))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(clock))
    monkeypatch.setattr(time, "sleep", lambda _s: None)
    marks = flow_sender._delivered([None, None], 120, 10)  # type: ignore[list-item]
    assert [total for _at, total in marks] == [3 * 1000 + 8 * 500, 7 * 1000 + 9 * 500]


def test_a_kernel_that_does_not_tell_gives_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as idle, monkeypatch.context() as patched:
        patched.setattr(flow_sender, "_BYTES_SENT", 1 << 12)  # a tcp_info that ends before it
        assert flow_sender._delivered([idle], time.monotonic_ns() + MS, MS) == []
