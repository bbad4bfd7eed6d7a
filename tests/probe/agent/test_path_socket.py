"""Probes of a path on a socket whose kernel says what it is told to, and the searches' very questions."""

from __future__ import annotations

import errno
import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import kernel_stamps
from netprobe.probe.agent.path import mtu as mtu_search
from netprobe.probe.agent.path import tasks as path_tasks
from netprobe.probe.agent.path import udp_probes
from netprobe.probe.agent.path.mtu import MtuSearch
from netprobe.probe.agent.path.tasks import Walk
from netprobe.probe.agent.path.udp_probes import (
    EXPIRED,
    REPLY,
    SILENCE,
    TOO_BIG,
    UNREACHABLE,
    Outcome,
    PathSocket,
    read_error,
)
from netprobe.probe.agent.stamp import packet

TOKEN = bytes(range(16))
MS = 10**6
PATIENCE = 100 * MS
ROUTER = struct.pack("@HH4s8x", socket.AF_INET, 0, socket.inet_aton("10.0.0.1"))
ROUTER6 = struct.pack("@HHI16sI", socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, "2001:db8::1"), 0)


def queued(code: int, origin: int, kind: int, info: int = 0, who: bytes = ROUTER, ipv6: bool = False) -> Any:
    """struct sock_extended_err of linux/errqueue.h, and the address of who said so."""
    level = (41, 25) if ipv6 else (0, 11)
    return (*level, struct.pack("@IBBBBII", code, origin, kind, 0, 0, info, 0) + who)


class Kernel:
    """Stands for a socket, for ``select.poll`` and for the clock, which moves by what is waited for only."""

    def __init__(self) -> None:
        self.now = 10**12
        self.options: dict[tuple[int, int], int] = {}
        self.sent: list[bytes] = []
        self.send_errors: list[int] = []
        self.replies: list[bytes | OSError] = []
        self.errors: list[tuple[bytes, list[Any]]] = []
        self.waits: list[float] = []
        self.events: list[Any] = []
        self.closed = 0

    def monotonic_ns(self) -> int:
        self.now += 1000
        return self.now

    time_ns = monotonic_ns

    def poll(self, *timeout: float) -> Any:
        if not timeout:
            return self  # select.poll()
        self.waits.append(timeout[0])
        if self.events:
            step = self.events.pop(0)
            step(self)
            return [(1, 1)]
        self.now += round(timeout[0] * 1e6)
        return []

    def register(self, *_arguments: Any) -> None:
        """Whatever is watched."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.options[(level, option)] = value

    def connect(self, peer: Any) -> None:
        self.peer = peer

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.7", 4242

    def setblocking(self, on: bool) -> None:
        assert not on

    def close(self) -> None:
        self.closed += 1

    def send(self, data: bytes) -> int:
        if self.send_errors and (code := self.send_errors.pop(0)):
            raise OSError(code, "refused")
        self.sent.append(data)
        return len(data)

    def recv(self, _size: int) -> bytes:
        if not self.replies:
            raise BlockingIOError
        found = self.replies.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    def recvmsg(self, _size: int, _ancillary: int, flags: int) -> Any:
        assert flags & 0x2000 and flags & socket.MSG_DONTWAIT  # MSG_ERRQUEUE
        if not self.errors:
            raise BlockingIOError
        data, ancillary = self.errors.pop(0)
        return data, ancillary, 0, None


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(udp_probes, "time", made)
    monkeypatch.setattr(udp_probes, "select", SimpleNamespace(poll=made.poll, POLLIN=1))
    monkeypatch.setattr(kernel_stamps, "udp_socket", lambda _address: made)
    monkeypatch.setattr(udp_probes, "bind_source", lambda *_arguments: None)
    return made


def opened(address: str = "10.0.0.2") -> PathSocket:
    return PathSocket(address, 9, "10.0.0.7", TOKEN, 5)


def answer_to(number: int) -> bytes:
    probe = packet.parse_probe(packet.build_probe(number, 5, 10**18, TOKEN), TOKEN)
    assert probe is not None
    return packet.build_reply(probe, 1, packet.METHOD_USER, 2, packet.METHOD_USER, 64, (0, 0, 0))


def comes(*replies: Any, errors: Any = ()) -> Any:
    def step(kernel: Kernel) -> None:
        kernel.replies += replies
        kernel.errors += errors

    return step


def test_the_kernel_is_asked_to_cut_nothing_and_to_tell_of_errors(kernel: Kernel) -> None:
    made = opened()
    # IP_RECVERR 11; IP_MTU_DISCOVER 10 = IP_PMTUDISC_PROBE 3 (ip(7))
    assert kernel.options == {(0, 11): 1, (0, 10): 3}
    assert (made.source_port, made.header_bytes, kernel.peer) == (4242, 28, ("10.0.0.2", 9))
    kernel.options.clear()
    assert opened("2001:db8::2").header_bytes == 48
    # IPV6_RECVERR 25; IPV6_MTU_DISCOVER 23 = 3; IPV6_DONTFRAG 62 (linux/in6.h)
    assert kernel.options == {(41, 25): 1, (41, 23): 3, (41, 62): 1}


def test_a_probe_has_its_time_to_live_size_and_number(kernel: Kernel) -> None:
    made = opened()
    kernel.events = [comes(answer_to(1)), comes(answer_to(2))]
    assert made.probe(7, 0, PATIENCE).kind == REPLY
    assert kernel.options[(0, socket.IP_TTL)] == 7
    probe = packet.parse_probe(kernel.sent[0], TOKEN)
    assert probe is not None and (probe.seq, probe.ssid) == (1, 5)
    outcome = made.probe(255, 1500, PATIENCE)
    assert (outcome.kind, outcome.address) == (REPLY, "10.0.0.2")
    assert len(kernel.sent[1]) == 1500 - 28 and made.seq == 2
    kernel.events = [comes(answer_to(1))]
    six = opened("2001:db8::2")
    assert six.probe(3, 1500, PATIENCE).kind == REPLY and len(kernel.sent[2]) == 1500 - 48
    assert kernel.options[(41, socket.IPV6_UNICAST_HOPS)] == 3


def test_silence_lasts_as_long_as_patience_whatever_else_comes(kernel: Kernel) -> None:
    made = opened()
    began = kernel.now
    # The answer to another probe, one of another scan, nonsense, and an error that the error queue has.
    stranger = answer_to(1)[:-1]
    kernel.events = [
        comes(answer_to(9)),
        comes(stranger),
        comes(b"x"),
        comes(OSError(errno.ECONNREFUSED, "")),
    ]
    assert made.probe(1, 0, PATIENCE).kind == SILENCE
    assert PATIENCE <= kernel.now - began < PATIENCE + MS
    assert len(kernel.waits) >= 5 and all(99 < wait <= 100 for wait in kernel.waits[:5])


def test_the_last_wait_is_a_millisecond_at_least(kernel: Kernel) -> None:
    made = opened()
    assert made.probe(1, 0, MS // 2).kind == SILENCE and kernel.waits == [1.0]


def test_errors_are_told_from_those_of_other_probes(kernel: Kernel) -> None:
    made = opened()
    expired = [queued(errno.EHOSTUNREACH, 2, 11)]
    one, other = (1).to_bytes(4, "big"), (2).to_bytes(4, "big")
    kernel.events = [comes(errors=[(other + bytes(8), expired)]), comes(errors=[(one + bytes(8), expired)])]
    outcome = made.probe(1, 0, PATIENCE)
    assert (outcome.kind, outcome.address) == (EXPIRED, "10.0.0.1") and len(kernel.waits) == 2
    # Less than a number quoted: it cannot be told, and is believed.
    kernel.events = [comes(errors=[(b"\0\0\0", expired)])]
    assert made.probe(1, 0, PATIENCE).kind == EXPIRED


def test_an_earlier_probes_error_does_not_keep_this_one_from_leaving(kernel: Kernel) -> None:
    made = opened()
    kernel.send_errors = [errno.EHOSTUNREACH] * 3
    kernel.events = [comes(answer_to(1))]
    assert made.probe(1, 0, PATIENCE).kind == REPLY and len(kernel.sent) == 1
    kernel.send_errors = [errno.EHOSTUNREACH] * 4 + [0]
    assert (
        made.probe(1, 0, PATIENCE).kind == SILENCE and len(kernel.sent) == 1 and len(kernel.send_errors) == 1
    )
    for code in (errno.ENOBUFS, errno.EAGAIN):
        kernel.send_errors = [code, 0]
        assert made.probe(1, 0, PATIENCE).kind == SILENCE and kernel.send_errors == [0]


def test_a_probe_too_big_for_this_host_has_its_mtu(kernel: Kernel) -> None:
    made = opened()
    kernel.send_errors = [errno.EMSGSIZE]
    kernel.errors = [
        (b"", [queued(errno.EHOSTUNREACH, 2, 11)]),
        (b"", [queued(errno.EMSGSIZE, 1, 0, 1400, b"")]),
    ]
    outcome = made.probe(255, 9000, PATIENCE)
    assert (outcome.kind, outcome.mtu, kernel.waits) == (TOO_BIG, 1400, [])
    kernel.send_errors = [errno.EMSGSIZE]
    outcome = made.probe(255, 9000, PATIENCE)
    assert (outcome.kind, outcome.mtu) == (TOO_BIG, 0)


@pytest.mark.parametrize(
    ("entry", "kind", "address", "mtu"),
    [
        (queued(errno.EHOSTUNREACH, 2, 11), EXPIRED, "10.0.0.1", 0),
        (queued(errno.EHOSTUNREACH, 3, 3, 0, ROUTER6, True), EXPIRED, "2001:db8::1", 0),
        (queued(errno.EHOSTUNREACH, 2, 3), UNREACHABLE, "10.0.0.1", 0),
        (queued(errno.ENETUNREACH, 3, 1, 0, ROUTER6, True), UNREACHABLE, "2001:db8::1", 0),
        (queued(errno.EMSGSIZE, 2, 3, 1280), TOO_BIG, "10.0.0.1", 1280),
        (queued(errno.EMSGSIZE, 3, 2, 1280, ROUTER6, True), TOO_BIG, "2001:db8::1", 1280),
        (queued(errno.EMSGSIZE, 1, 0, 1500, b""), TOO_BIG, None, 1500),
        (queued(errno.EHOSTUNREACH, 2, 11, 0, bytes(16)), EXPIRED, None, 0),
        (queued(errno.EHOSTUNREACH, 2, 11, 0, ROUTER6[:27]), EXPIRED, None, 0),
    ],
)
def test_an_entry_says_what_became_of_a_probe(entry: Any, kind: str, address: str | None, mtu: int) -> None:
    stamp = (socket.SOL_SOCKET, 37, bytes(48))
    outcome = read_error([stamp, entry])
    assert outcome is not None and (outcome.kind, outcome.address, outcome.mtu) == (kind, address, mtu)


@pytest.mark.parametrize(
    "entry",
    [queued(111, 2, 0), queued(errno.EMSGSIZE, 4, 0), queued(5, 3, 11), queued(5, 2, 1), (0, 11, bytes(15))],
)
def test_other_entries_are_nothing(entry: Any) -> None:
    assert read_error([entry]) is None


class Way:
    """Answers of a path as a list of what becomes of each probe; the last one goes on."""

    header_bytes = 28

    def __init__(self, *outcomes: Outcome, takes_ns: int = 0) -> None:
        self.outcomes, self.takes_ns = list(outcomes), takes_ns
        self.asked: list[tuple[int, int, int]] = []
        self.now = 10**12

    def probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
        self.asked.append((ttl, size, patience_ns))
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        self.now += self.takes_ns if outcome.kind == REPLY else patience_ns
        return outcome

    def monotonic_ns(self) -> int:
        return self.now


def walk(
    monkeypatch: pytest.MonkeyPatch, way: Way, timeout_ns: int = 1000 * MS, limit_ns: int = 10**10
) -> Walk:
    monkeypatch.setattr(path_tasks, "time", way)
    monkeypatch.setattr(mtu_search, "time", way)
    return Walk(way, timeout_ns, limit_ns)


@pytest.mark.parametrize(("takes_ms", "patience_ms"), [(1, 15), (3, 15), (10, 40), (400, 1000)])
def test_patience_is_four_round_trips_within_bounds(
    monkeypatch: pytest.MonkeyPatch, takes_ms: int, patience_ms: int
) -> None:
    way = Way(Outcome(REPLY, "10.0.0.2"), takes_ns=takes_ms * MS)
    made = walk(monkeypatch, way)
    assert made.begin() is None and way.asked == [(255, 0, 1000 * MS)]
    assert made.hops() == 1 and way.asked[1:] == [(1, 0, patience_ms * MS)] and made.sent == 2


def test_who_says_that_the_end_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    said = walk(monkeypatch, Way(Outcome(SILENCE), Outcome(UNREACHABLE, "10.0.0.1"), Outcome(SILENCE)))
    assert said.begin() == "unreachable, says 10.0.0.1" and said.sent == 3
    assert walk(monkeypatch, Way(Outcome(UNREACHABLE))).begin() == "unreachable, says this host"


def test_hops_are_asked_twice_and_no_further_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way(Outcome(SILENCE))
    made = walk(monkeypatch, way)
    assert made.hops() == 0 and made.addresses == [None] * 6  # of two seconds each, in ten
    assert [ttl for ttl, _size, _patience in way.asked] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    way = Way(Outcome(EXPIRED, "10.0.0.1"))
    way.takes_ns = 0
    monkeypatch.setattr(way, "probe", lambda ttl, size, patience_ns: Outcome(EXPIRED, f"10.0.0.{ttl}"))
    made = walk(monkeypatch, way)
    assert made.hops() == 0 and made.addresses == [f"10.0.0.{ttl}" for ttl in range(1, 65)]


def test_a_hop_whose_answer_was_lost_is_asked_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    end, silence = Outcome(REPLY, "10.0.0.2"), Outcome(SILENCE)
    way = Way(end, silence, silence, end, silence, silence, Outcome(EXPIRED, "10.0.0.1"))
    made = walk(monkeypatch, way)
    assert made.begin() is None and made.hops() == 2 and made.addresses == ["10.0.0.1", "10.0.0.2"]
    assert [(ttl, patience) for ttl, _size, patience in way.asked[4:]] == [(1, 60 * MS)] * 3


def search(
    kernel_mtu: int, path_mtu: int, *, tells: bool, least: int = 72, fits: int = 72
) -> tuple[int, list[int]]:
    asked: list[int] = []

    def probe(size: int, _patience: int) -> Outcome:
        asked.append(size)
        if size > kernel_mtu:
            return Outcome(TOO_BIG, None, kernel_mtu)
        if size > path_mtu:
            return Outcome(TOO_BIG, "10.0.0.1", path_mtu) if tells else Outcome(SILENCE)
        return Outcome(REPLY, "10.0.0.2")

    found = MtuSearch(probe, least, fits, (1, 4), 1 << 62).run()
    return found, asked


def test_the_search_asks_for_what_was_told_then_for_what_is_common() -> None:
    assert search(1500, 1500, tells=True) == (1500, [65535, 1500])
    assert search(9001, 1400, tells=True) == (1400, [65535, 9001, 1400])
    found, asked = search(9001, 1500, tells=False)
    assert found == 1500
    # Twice the interface's own, then Ethernet's; what else is common, twice; then a byte more, five times between
    # answers of what fits.
    between = [size for size in (9000, 8950, 8896, 8500, 3900, 1501) for _ in range(2)]
    assert asked == [65535, 9001, 9001, 1500, *between, 1500, *[1501, 1500] * 5]
    found, asked = search(1500, 1399, tells=False)
    assert found == 1399 and asked[:5] == [65535, 1500, 1500, 1492, 1492]
    assert search(1500, 72, tells=False)[0] == 72
    assert search(65535, 65535, tells=True) == (65535, [65535])


def test_nothing_is_proved_when_the_time_is_up() -> None:
    asked: list[int] = []

    def probe(size: int, _patience: int) -> Outcome:
        asked.append(size)
        return Outcome(SILENCE)

    assert MtuSearch(probe, 72, 72, (1, 4), 0).run() == 0 and asked == []


def test_a_limit_below_what_has_passed_is_no_limit() -> None:
    def probe(size: int, _patience: int) -> Outcome:
        return Outcome(REPLY) if size <= 1400 else Outcome(TOO_BIG, "10.0.0.1", 60 if size > 1450 else 1400)

    assert MtuSearch(probe, 72, 80, (1, 4), 1 << 62).run() == 1400
