"""Where the stamps of a reading come from, by construction: each stamp is known by its value.

A stamp of user space in the place of the kernel's moves a reading by tens of microseconds, which no test that
measures on a busy machine can see.
"""

from __future__ import annotations

import importlib.util
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netprobe.probe.agent import kernel_stamps, pacing, tcp_connect
from netprobe.probe.agent.icmp import packets as icmp_packets
from netprobe.probe.agent.icmp import sender as icmp_sender
from netprobe.probe.agent.stamp import packet
from netprobe.probe.agent.stamp import sender as stamp_sender
from netprobe.probe.agent.stamp.reflector import Reflector
from netprobe.probe.agent.stamp.sender import Probing, Series
from netprobe.probe.agent.tcp_connect import ConnectSeries, Listener
from tests.probe.agent.wire import SENT_LATE, TAKEN_LATE, US, Wire

TOKEN = bytes(range(16))
COUNT = 20
AHEAD = 3 * 86_400 * 10**9
ONE_WAY, HELD, SENT_LATE_THERE = 50 * US, 40 * US, 7 * US
SOFTWARE, USER = packet.METHOD_SOFTWARE, packet.METHOD_USER
BY_KERNEL = 2 * ONE_WAY
BY_RECEIPT = 2 * ONE_WAY + SENT_LATE + SENT_LATE_THERE
needs_scapy = pytest.mark.skipif(importlib.util.find_spec("scapy") is None, reason="scapy is not installed")


def reflecting(t2_method: int = SOFTWARE, t3_method: int = SOFTWARE) -> Callable[[bytes, int], Any]:
    """The far end of STAMP: its kernel and its user space have stamps that differ, its clock is days ahead."""
    previous = (0, 0, 0)

    def answer(data: bytes, left: int) -> list[tuple[int, bytes]]:
        nonlocal previous
        probe = packet.parse_probe(data, TOKEN)
        assert probe is not None
        t2 = left + ONE_WAY + AHEAD
        t3 = t2 + HELD
        reply = packet.build_reply(probe, t2, t2_method, t3, USER, 64, previous)
        departs = t3 + SENT_LATE_THERE
        previous = (probe.seq, departs if t3_method == SOFTWARE else t3, t3_method)
        return [(departs - AHEAD + ONE_WAY, reply)]

    return answer


def stamp_series(monkeypatch: pytest.MonkeyPatch, wire: Wire, best: str = "kernel") -> dict[str, Any]:
    wire.stand_in(monkeypatch, stamp_sender, pacing)
    monkeypatch.setattr(kernel_stamps, "udp_socket", lambda _address: wire)
    monkeypatch.setattr(stamp_sender, "bind_source", lambda *_arguments: None)
    probing = Probing(count=COUNT, interval_ns=1000 * US, timeout_ns=10**9, best=best)
    return Series("10.0.0.2", 9, "10.0.0.1", TOKEN, 7, probing).run()


def rtts(result: dict[str, Any]) -> set[int]:
    assert len(result["samples"]) + result["rejected"] == result["received"] == COUNT
    return {rtt for _seq, _sent, rtt in result["samples"]}


def test_t1_to_t4_are_the_kernels_where_the_level_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = stamp_series(monkeypatch, Wire(reflecting()))
    assert (result["stamps"], rtts(result)) == ("kernel", {BY_KERNEL})


@pytest.mark.parametrize(
    ("far", "wire", "best"),
    [
        ({"t3_method": USER}, {}, "kernel"),
        ({}, {"grants": "kernel_rx"}, "kernel"),
        ({}, {"transmit": False}, "kernel"),
        ({}, {}, "kernel_rx"),
    ],
)
def test_without_a_stamp_of_leaving_the_level_is_that_of_receipt(
    monkeypatch: pytest.MonkeyPatch, far: dict[str, int], wire: dict[str, Any], best: str
) -> None:
    result = stamp_series(monkeypatch, Wire(reflecting(**far), **wire), best)
    assert (result["stamps"], rtts(result)) == ("kernel_rx", {BY_RECEIPT})


@pytest.mark.parametrize(
    ("far", "wire", "best"),
    [
        ({"t2_method": USER}, {}, "kernel"),
        ({"t2_method": USER, "t3_method": USER}, {}, "kernel_rx"),
        ({}, {"grants": "user"}, "kernel"),
        ({}, {"receipt": False}, "kernel"),
        ({}, {}, "user"),
    ],
)
def test_without_a_stamp_of_receipt_the_level_is_user_space(
    monkeypatch: pytest.MonkeyPatch, far: dict[str, int], wire: dict[str, Any], best: str
) -> None:
    result = stamp_series(monkeypatch, Wire(reflecting(**far), **wire), best)
    assert result["stamps"] == "user"
    assert min(rtts(result)) > BY_RECEIPT + TAKEN_LATE  # the time until user space took them is in it


@pytest.fixture
def reflector() -> Iterator[Reflector]:
    opened = Reflector("127.0.0.1", (0, 0), TOKEN, "kernel")
    assert opened.level == "kernel"
    yield opened
    opened.close()


def test_t3_is_the_kernels_stamp_where_the_next_reply_says_so(
    reflector: Reflector, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {0: 1_234_567_890_123_456_789, 2: 1_234_567_890_123_999_999}
    waiting = dict(known)
    monkeypatch.setattr(
        "netprobe.probe.agent.stamp.reflector.kernel_stamps.read_transmit_stamp",
        lambda _sock: (
            ((number := next(iter(waiting), None)) is not None and (number, waiting.pop(number))) or None
        ),
    )
    replies: list[packet.Reply] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(60)
        sock.connect(("127.0.0.1", reflector.port))
        for seq in (1, 2, 3, 4):
            sock.send(packet.build_probe(seq, 9, 5, TOKEN))
            reply = packet.parse_reply(sock.recv(2048), 9, TOKEN)
            assert reply is not None and reply.seq == seq and reply.previous_seq == seq - 1
            if seq > 1:
                assert (reply.previous_kernel, reply.previous_t3) == (
                    (True, known[seq - 2]) if seq - 2 in known else (False, replies[-1].t3)
                )
            replies.append(reply)
            if seq == 1:
                waiting.pop(2)
            elif seq == 3:
                waiting[2] = known[2]


def echoing(ident: int, *strangers: Callable[[bytes], bytes]) -> Callable[[bytes, int], Any]:
    """A kernel that answers echoes; before each answer come those that are not for us, as soon as they can."""

    def answer(data: bytes, left: int) -> list[tuple[int, bytes]]:
        assert struct.unpack_from("!H", data, 4) == (ident,)
        header = bytes.fromhex("4500005400004000400100000a0000020a000001")
        reply = b"\0" + data[1:]
        came = left + 2 * ONE_WAY
        return [(came - 30 * US, header + change(reply)) for change in strangers] + [(came, header + reply)]

    return answer


def of_another_id(reply: bytes) -> bytes:
    return reply[:4] + struct.pack("!H", struct.unpack_from("!H", reply, 4)[0] ^ 1) + reply[6:]


def of_another_token(reply: bytes) -> bytes:
    return reply[:8] + bytes(16) + reply[24:]


def a_request(reply: bytes) -> bytes:
    return b"\x08" + reply[1:]


@needs_scapy
@pytest.mark.parametrize("stranger", [of_another_id, of_another_token, a_request])
@pytest.mark.parametrize(
    ("wire", "level", "rtt"),
    [
        ({}, "kernel", BY_KERNEL),
        ({"grants": "kernel_rx"}, "kernel_rx", BY_KERNEL + SENT_LATE),
        ({"transmit": False}, "kernel_rx", BY_KERNEL + SENT_LATE),
        ({"receipt": False}, "user", None),
    ],
)
def test_an_echo_is_stamped_by_the_kernel_and_answered_by_its_own_reply(
    monkeypatch: pytest.MonkeyPatch, stranger: Any, wire: dict[str, Any], level: str, rtt: int | None
) -> None:
    icmp_packets.load()
    echoes = icmp_sender.Echoes(ipv6=False, count=COUNT)
    fake = Wire(echoing(echoes.ident, stranger), **wire)
    fake.stand_in(monkeypatch, icmp_sender, pacing)
    monkeypatch.setattr(icmp_sender, "_raw_socket", lambda _ipv6: fake)
    answer, samples = icmp_sender.EchoSeries(
        "10.0.0.2", "10.0.0.1", echoes, 1000 * US, 10**9, "kernel"
    ).run()  # fmt: skip
    assert (answer["stamps"], answer["received"], answer["rejected"]) == (level, COUNT, 0)
    assert len(samples) == COUNT
    found = {value for _seq, _sent, value in samples}
    assert found == {rtt} if rtt else min(found) > BY_KERNEL + SENT_LATE + TAKEN_LATE


@needs_scapy
def test_an_echo_that_is_answered_twice_has_the_reading_of_the_first_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    icmp_packets.load()
    echoes = icmp_sender.Echoes(ipv6=False, count=COUNT)
    one = echoing(echoes.ident)

    def twice(data: bytes, left: int) -> list[tuple[int, bytes]]:
        ((came, reply),) = one(data, left)
        return [(came, reply), (came + 30 * US, reply)]

    fake = Wire(twice)
    fake.stand_in(monkeypatch, icmp_sender, pacing)
    monkeypatch.setattr(icmp_sender, "_raw_socket", lambda _ipv6: fake)
    answer, samples = icmp_sender.EchoSeries(
        "10.0.0.2", "10.0.0.1", echoes, 1000 * US, 10**9, "kernel"
    ).run()  # fmt: skip
    assert (answer["received"], answer["stamps"]) == (COUNT, "kernel")
    assert answer["duplicates"] == COUNT  # the warm-up's among them; the last one comes when all are answered
    assert {value for _seq, _sent, value in samples} == {BY_KERNEL}


class Told:
    """A socket whose kernel tells this of its connection: struct tcp_info of linux/tcp.h."""

    def __init__(self, rtt_us: int, total_retrans: int) -> None:
        words = dict.fromkeys(range(8, 104, 4), 999_999) | {68: rtt_us, 100: total_retrans}
        self.info = b"\xff" * 8 + struct.pack("@24I", *words.values())

    def getsockopt(self, _level: int, _option: int, size: int) -> bytes:
        return self.info[:size]


def test_what_the_kernel_tells_of_a_handshake_stands_at_its_place() -> None:
    assert tcp_connect.tcp_info(Told(123, 0)) == (123_000, 0)  # type: ignore[arg-type]
    assert tcp_connect.tcp_info(Told(123, 2)) == (123_000, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("best", ["kernel", "user"])
def test_a_handshake_at_the_second_try_is_a_loss_and_another_ones_time_the_kernels(
    monkeypatch: pytest.MonkeyPatch, best: str
) -> None:
    said = iter([(9_000, 0)] + [(9_000 + seq, int(seq % 4 == 0)) for seq in range(1, COUNT + 1)])
    monkeypatch.setattr(tcp_connect, "tcp_info", lambda _sock: next(said))
    listener = Listener("127.0.0.1", (0, 0))
    try:
        answer, samples = ConnectSeries(
            "127.0.0.1", listener.port, "127.0.0.1", COUNT, 500_000, 10**10, best
        ).run()  # fmt: skip
    finally:
        listener.close()
    assert (answer["sent"], answer["received"], answer["stamps"]) == (COUNT, COUNT * 3 // 4, best)
    first_tries = [seq for seq in range(1, COUNT + 1) if seq % 4]
    assert [seq for seq, _sent, _rtt in samples] == first_tries
    if best == "kernel":
        assert [rtt for _seq, _sent, rtt in samples] == [9_000 + seq for seq in first_tries]
    else:
        assert min(rtt for _seq, _sent, rtt in samples) > 9_100
