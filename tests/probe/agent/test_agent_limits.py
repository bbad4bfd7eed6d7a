"""Limits and ends of an agent's tasks: sockets that cannot be had, members that cannot be, flows that take too long."""

from __future__ import annotations

import errno
import importlib.util
import itertools
import socket
import struct
import threading
import time
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from netprobe.probe.agent import kernel_stamps
from netprobe.probe.agent.collective import tasks as collective_tasks
from netprobe.probe.agent.goodput import flow_sender
from netprobe.probe.agent.icmp import packets as icmp_packets
from netprobe.probe.agent.icmp import sender as icmp_sender
from netprobe.probe.agent.path import scapy_probes
from netprobe.probe.agent.path.scapy_probes import ScapyPathSocket
from netprobe.probe.agent.path.udp_probes import EXPIRED, TOO_BIG, UNREACHABLE, Outcome, PathSocket
from netprobe.probe.agent.stamp import packet
from netprobe.probe.agent.stamp import sender as stamp_sender
from netprobe.probe.agent.stamp.packet import Reply
from netprobe.probe.agent.stamp.readings import LEAST_READINGS, SeriesReadings
from netprobe.probe.agent.stamp.reflector import Reflector
from netprobe.probe.agent.stamp.sender import Probing, Series
from netprobe.probe.agent.tcp_connect import Listener

MS = 10**6
TOKEN = bytes(range(16))
needs_scapy = pytest.mark.skipif(importlib.util.find_spec("scapy") is None, reason="scapy is not installed")


def test_a_port_that_is_taken_is_an_error_and_leaves_no_socket() -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for sock in (tcp, udp):
            sock.bind(("127.0.0.1", 0))
        tcp.listen(1)
        port = tcp.getsockname()[1]
        with pytest.raises(OSError) as raised:
            Listener("127.0.0.1", (port, port))
        assert raised.value.errno == errno.EADDRINUSE
        port = udp.getsockname()[1]
        with pytest.raises(OSError) as raised:
            Reflector("127.0.0.1", (port, port), TOKEN, "user")
        assert raised.value.errno == errno.EADDRINUSE


class Closed:
    """A socket on which one call fails."""

    family = socket.AF_INET

    def __init__(self, fails: str) -> None:
        self.fails, self.closed, self.options = fails, False, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if name == self.fails:
                raise OSError(errno.ENETUNREACH, "no route")
            if name == "setsockopt":
                self.options.append(arguments)
            return ("10.0.0.1", 7)

        return call

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("fails", ["connect", "setblocking"])
def test_a_series_that_cannot_begin_closes_its_socket(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    sock = Closed(fails)
    monkeypatch.setattr(kernel_stamps, "udp_socket", lambda _address: sock)
    monkeypatch.setattr(stamp_sender, "bind_source", lambda *_arguments: None)
    probing = Probing(count=5, interval_ns=MS, timeout_ns=MS, best="kernel")
    with pytest.raises(OSError):
        Series("10.0.0.2", 9, "10.0.0.1", TOKEN, 7, probing)
    assert sock.closed
    sock = Closed("connect")
    monkeypatch.setattr(kernel_stamps, "udp_socket", lambda _address: sock)
    with pytest.raises(OSError):
        PathSocket("10.0.0.2", 9, "10.0.0.1", TOKEN, 7)
    assert sock.closed


@pytest.mark.parametrize(("ipv6", "protocol"), [(False, 1), (True, 58)])
def test_a_raw_socket_takes_echo_replies_alone(
    monkeypatch: pytest.MonkeyPatch, ipv6: bool, protocol: int
) -> None:
    made: list[Any] = []

    def opened(family: int, kind: int, number: int) -> Closed:
        made.append((family, kind, number))
        return sock

    sock = Closed("")
    monkeypatch.setattr("netprobe.probe.agent.icmp.sender.socket.socket", opened)
    icmp_sender._raw_socket(ipv6)
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    assert made == [(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)]
    ((level, option, mask),) = sock.options
    assert (level, option) == ((58, 1) if ipv6 else (255, 1))
    # A set bit blocks a type (linux/icmp.h, linux/icmpv6.h): replies are type 0, and 129 with IPv6.
    words = struct.unpack(f"@{len(mask) // 4}I", mask)
    passing = [32 * at + bit for at, word in enumerate(words) for bit in range(32) if not word >> bit & 1]
    assert passing == [129 if ipv6 else 0]
    sock = Closed("setsockopt")
    with pytest.raises(OSError):
        icmp_sender._raw_socket(ipv6)
    assert sock.closed


def test_echoes_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        icmp_packets, "build_echo", lambda ident, seq, payload, ipv6: (ident, seq, payload, ipv6)
    )
    resources: dict[str, Any] = {}
    kept = icmp_sender.echoes(resources, False, 3)
    assert [one[1] for one in kept.packets] == [0, 1, 2, 3]
    assert {len(one[2]) for one in kept.packets} == {64 - 8}  # type: ignore[arg-type]
    assert all(one[2][:16] == kept.token for one in kept.packets)  # type: ignore[index]
    assert icmp_sender.echoes(resources, False, 3) is kept
    assert (
        icmp_sender.echoes(resources, True, 3) is not kept
        and icmp_sender.echoes(resources, True, 4).count == 4
    )
    for count in (0, icmp_sender.MAX_ECHOES + 1):
        with pytest.raises(ValueError):
            icmp_sender.echoes(resources, False, count)
    assert icmp_sender.echoes(resources, False, 1).count == 1


@pytest.mark.parametrize(
    ("data", "ipv6", "number"),
    [
        (b"\x45" + bytes(19) + b"\0\0\0\0\x12\x34\0\x09", False, 9),
        (b"\x46" + bytes(23) + b"\0\0\0\0\x12\x34\0\x09", False, 9),  # with an option
        (b"\x81\0\0\0\x12\x34\x01\x02", True, 258), (b"\x80\0\0\0\x12\x34\x01\x02", True, -1),
        (b"\x45" + bytes(19) + b"\x08\0\0\0\x12\x34\0\x09", False, -1),
        (b"\x45" + bytes(19) + b"\0\x01\0\0\x12\x34\0\x09", False, -1),
        (b"\x45" + bytes(19) + b"\0\0\0\0\x12\x35\0\x09", False, -1),
        (b"\x45" + bytes(19) + b"\0\0\0\0\x12\x34\0", False, -1), (b"", False, -1), (b"", True, -1),
    ],
)  # fmt: skip
def test_the_number_of_a_reply(data: bytes, ipv6: bool, number: int) -> None:
    assert icmp_sender.reply_number(data, 0x1234, ipv6) == number


def opened() -> tuple[dict[str, Any], list[Any]]:
    resources: dict[str, Any] = {}
    collective_tasks.open_port({"token": "ab" * 16, "address": "127.0.0.1", "ports": [0, 0]}, resources)
    return resources, []


@pytest.mark.parametrize(
    ("place", "members", "channels", "allowed"),
    [
        (0, 1, 1, True),
        (2, 3, 64, True),
        (3, 3, 1, False),
        (-1, 3, 1, False),
        (0, 3, 0, False),
        (0, 3, 65, False),
    ],
)
def test_a_member_has_a_place_among_them(
    monkeypatch: pytest.MonkeyPatch, place: int, members: int, channels: int, allowed: bool
) -> None:
    resources, met = opened()

    class Met:
        links: ClassVar[dict[Any, Any]] = {}
        faults: ClassVar[list[Any]] = [(1, "it did not connect")]

        def __init__(self, *arguments: Any) -> None:
            met.append(arguments[2:])

        def run(self, dial: Any, accept: Any) -> None:
            met.append((dial, accept))

    monkeypatch.setattr(collective_tasks, "Meeting", Met)
    message = {
        "place": place, "members": members, "channels": channels, "limit_ns": 1 << 60, "source": "10.0.0.1",
        "dial": [1], "accept": [2],
    }  # fmt: skip
    try:
        if allowed:
            answer, _ = collective_tasks.connect(message, resources)
            assert answer == {"type": "connected", "links": 0, "faults": Met.faults}
            assert met == [(place, "10.0.0.1", channels, 24 * 3600 * 10**9), ([1], [2])]
            here = resources["collective"].interpreter
            assert (here.place, here.members) == (place, members)
        else:
            with pytest.raises(ValueError):
                collective_tasks.connect(message, resources)
    finally:
        collective_tasks.close({}, resources)
    assert resources == {} and collective_tasks.close({}, resources)[0] == {"type": "closed"}


def test_a_program_comes_in_parts_and_runs_only_where_it_fits() -> None:
    resources, _ = opened()
    head = {"program": 3, "rank": 0, "ranks": 1, "sizes": [[2, 8]], "owed": [[0, 2, "1"]]}
    for rows, actions in (([[0, 0, 2, -1, 0, 0, []]], 1), ([[3, 0, 2, -1, 0, 0, [0]]], 2)):
        assert collective_tasks.load({**head, "rows": rows}, resources)[0] == {
            "type": "loaded",
            "actions": actions,
        }
    run = {"sequence": [3, 3], "limit_ns": 10**10}
    with pytest.raises(ValueError):
        collective_tasks.run(run, resources)  # no connections yet
    meet = {
        "place": 0,
        "members": 1,
        "channels": 1,
        "limit_ns": 10**9,
        "source": "127.0.0.1",
        "dial": [],
        "accept": [],
    }
    collective_tasks.connect(meet, resources)
    answer, _ = collective_tasks.run(run, resources)
    assert len(answer["durations_ns"]) == 2 and (answer["code"], answer["reason"], answer["peer"]) == (
        None,
        None,
        None,
    )
    assert (answer["sent"], answer["received"], answer["type"]) == (0, 0, "ran")
    for sequence in ([], [3] * (collective_tasks.MAX_SEQUENCE + 1)):
        with pytest.raises(ValueError):
            collective_tasks.run({**run, "sequence": sequence}, resources)
    collective_tasks.load({**head, "program": 4, "ranks": 2, "rows": []}, resources)
    with pytest.raises(ValueError):
        collective_tasks.run({**run, "sequence": [4]}, resources)
    assert collective_tasks.run(run, resources)[0]["reason"] is None  # it is idle again
    collective_tasks.close({}, resources)
    with pytest.raises(ValueError):
        collective_tasks.load({**head, "rows": []}, resources)
    with pytest.raises(ValueError):
        collective_tasks.open_port({"token": "ab", "address": "127.0.0.1", "ports": [0, 0]}, resources)


def test_a_number_of_bytes_that_does_not_go_in_time_is_cut_off() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(2)
        sender = flow_sender.FlowSender("127.0.0.1", listener.getsockname()[1], "127.0.0.1", TOKEN, 1)
        taken, _peer = listener.accept()  # and reads nothing: its buffer is full soon
        began = time.monotonic()
        answer = sender.run(0, 200 * MS, 1 << 30)
        assert 0.2 <= answer["duration_ns"] / 1e9 < 20 and time.monotonic() - began < 30
        with pytest.raises(ConnectionResetError):
            while taken.recv(1 << 20):
                pass
        taken.close()


def test_the_ends_of_streams_are_waited_for_until_the_time_is_up() -> None:
    one, other = socket.socketpair()
    began = time.monotonic_ns()
    flow_sender._await_ends([one], began + 80 * MS)
    assert 70 * MS < time.monotonic_ns() - began < 20_000 * MS
    assert other.recv(1) == b""  # the other end was told
    other.close()
    began = time.monotonic_ns()
    flow_sender._await_ends([one], began + 60_000 * MS)
    assert time.monotonic_ns() - began < 20_000 * MS
    stream = flow_sender.Stream(one)
    assert [stream.going] == [True]
    closer = threading.Timer(0.05, stream.done.set)
    closer.start()
    stream.wait(time.monotonic_ns() + 60_000 * MS)
    assert stream.done.is_set() and [stream.going] == [False]
    one.close()


def test_a_look_at_p10_is_a_quarter_later_than_the_last() -> None:
    readings = SeriesReadings(1000, 10**9)
    now, last = 10**12, (0, 0, False)
    looks = []
    for seq in range(200):
        leaves = now + seq * MS
        readings.sent(seq, leaves, leaves)
        readings.left(seq, leaves)
        wide = 1000 * (seq * 7919 % 100)  # up to 100 us: never known to 2 us
        reply = Reply(seq, leaves + 50_000 + wide, True, leaves + 60_000 + wide, *last)
        last = (seq, leaves + 60_000 + wide, True)
        readings.answered(reply, leaves + 110_000 + wide, leaves + 110_000 + wide, leaves + 110_000 + wide)
        before = readings.look_at
        assert not readings.is_p10_known(2000)
        if readings.look_at != before:
            looks.append(readings.received)
    assert looks[0] == LEAST_READINGS
    # From one that had readings enough on, each is a quarter and one more.
    steady = [look for look in looks if look > LEAST_READINGS + 3]
    assert all(after == one * 5 // 4 + 1 for one, after in itertools.pairwise(steady)) and len(steady) > 4


class Scripted(ScapyPathSocket):
    """Hears what it is told to; nothing is sent."""

    def __init__(self) -> None:
        self.seq, self.first_ident, self.ports, self.peer, self.ttl = 0, 65_530, (7, 9), "10.0.0.2", 3
        self.heard: list[Any] = []
        self.source, self.token, self.ssid, self.ipv6, self.header_bytes = "10.0.0.1", TOKEN, 5, False, 28
        self.sock = self.icmp = SimpleNamespace(recv=self._recv, recvmsg=self._none)  # type: ignore[assignment]

    def _recv(self, _size: int) -> bytes:
        raise BlockingIOError

    def _none(self, *_arguments: Any) -> Any:
        raise BlockingIOError

    def _take_reply(self) -> Outcome | None:
        return self.heard.pop(0) if self.heard else None

    def _take_icmp(self) -> Outcome | None:
        return None


def test_raw_probes_wait_as_long_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=10**12)
    waits: list[float] = []

    class Poll:
        def register(self, *_arguments: Any) -> None:
            """Both sockets."""

        def poll(self, timeout: float) -> Any:
            waits.append(timeout)
            clock.now += round((1.0 if waker.heard else timeout) * MS)
            return [1] if waker.heard else []

    clock.monotonic_ns = lambda: clock.now
    monkeypatch.setattr(scapy_probes, "time", clock)
    monkeypatch.setattr(scapy_probes, "select", SimpleNamespace(poll=Poll, POLLIN=1))
    waker = Scripted()
    assert waker._wait(clock.now + 30 * MS).kind == "silence" and waits == [30.0]
    waits.clear()
    waker.heard = [None, None, Outcome("reply", "10.0.0.2")]
    assert waker._wait(clock.now + 30 * MS).kind == "reply" and waits == [30.0, 29.0, 28.0]
    waits.clear()
    assert waker._wait(clock.now).kind == "silence" and waits == []
    waker.heard = [None] * 9
    assert waker._wait(clock.now + 5 * MS).kind == "silence" and waits == [5.0, 4.0, 3.0, 2.0, 1.0]
    identities = set()
    for waker.seq in range(12):
        identities.add(waker.ident)
    assert len(identities) == 12 and 0 not in identities and max(identities) <= 0xFFFF


@needs_scapy
@pytest.mark.parametrize(
    ("type_", "code", "mtu", "kind"),
    [(11, 0, 0, EXPIRED), (3, 4, 1400, TOO_BIG), (3, 1, 0, UNREACHABLE), (3, 3, 0, UNREACHABLE)],
)
def test_an_icmp_error_is_believed_about_its_own_probe(type_: int, code: int, mtu: int, kind: str) -> None:
    icmp_packets.load()
    probe = Scripted()
    built = icmp_packets.build_udp("10.0.0.1", "10.0.0.2", (7, 9), 3, probe.ident, b"x" * 40)
    assert built[8] == 3 and built[6:8] == b"\x40\0" and built[4:6] == struct.pack("!H", probe.ident)
    error = bytes.fromhex("4500003800000000400100000a0000050a000001") + struct.pack(
        "!BBHHH", type_, code, 0, 0, mtu
    )
    heard = [error + built[:28]]
    probe.icmp = SimpleNamespace(recv=lambda _size: heard[0])  # type: ignore[assignment]
    outcome = ScapyPathSocket._take_icmp(probe)
    assert outcome is not None and (outcome.kind, outcome.address, outcome.mtu) == (kind, "10.0.0.5", mtu)
    probe.seq += 1  # it was about the one before
    assert ScapyPathSocket._take_icmp(probe) is None
    probe.seq -= 1
    probe.ports = (8, 9)
    assert ScapyPathSocket._take_icmp(probe) is None
    heard[0] = b"nonsense"
    assert ScapyPathSocket._take_icmp(probe) is None


def test_padding_comes_back_as_it_came() -> None:
    probe = packet.build_probe(1, 5, 10**18, TOKEN)
    assert packet.padding_to_return(probe) == b""
