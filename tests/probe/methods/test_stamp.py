"""Sender and reflector over real sockets of this machine."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netprobe.probe.agent.stamp import packet
from netprobe.probe.agent.stamp.reflector import Reflector
from netprobe.probe.agent.stamp.sender import Probing, Series

# An answer that comes late on a busy machine is an answer: only where none can come is the time-out short.
PATIENT_NS, SHORT_NS = 10**10, 3 * 10**8
TOKEN = bytes(range(16))
Reflect = Callable[..., Reflector]


@pytest.fixture
def reflect() -> Iterator[Reflect]:
    opened: list[Reflector] = []

    def start(address: str = "127.0.0.1", ports: tuple[int, int] = (0, 0), best: str = "kernel") -> Reflector:
        opened.append(Reflector(address, ports, TOKEN, best))
        return opened[-1]

    yield start
    for reflector in opened:
        reflector.close()
        assert not reflector.thread.is_alive()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


def series(
    port: int, address: str = "127.0.0.1", *, count: int = 20, best: str = "kernel", **fields: Any
) -> Series:
    times = {
        name: fields.pop(name) for name in ("interval_ns", "timeout_ns", "patience_ns") if name in fields
    }
    probing = Probing(count=count, best=best, **{"interval_ns": 500_000, "timeout_ns": PATIENT_NS, **times})
    return Series(address, port, probing=probing, **{"source": address, "token": TOKEN, "ssid": 9, **fields})


def bound(address: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, 0))
    sock.settimeout(60)
    return sock


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_series_reads_with_kernel_stamps(reflect: Reflect, address: str) -> None:
    if ":" in address and not has_ipv6():
        pytest.skip("no IPv6 on this machine")
    result = series(reflect(address).port, address).run()
    assert (result["sent"], result["received"], result["reason"]) == (20, 20, None)
    assert result["stamps"] == "kernel"
    assert len(result["samples"]) + result["rejected"] == 20  # the flush fetched the last stamp
    assert all(0 < rtt < PATIENT_NS for _, _, rtt in result["samples"])


@pytest.mark.parametrize(
    ("sender", "reflector", "level"),
    [
        ("kernel_rx", "kernel", "kernel_rx"),
        ("kernel", "kernel_rx", "kernel_rx"),
        ("user", "kernel", "user"),
        ("kernel", "user", "user"),
        ("user", "user", "user"),
    ],
)
def test_fallbacks_read_and_say_what_they_are(
    reflect: Reflect, sender: str, reflector: str, level: str
) -> None:
    result = series(reflect(best=reflector).port, best=sender).run()
    assert (result["stamps"], result["received"]) == (level, 20)
    assert len(result["samples"]) >= 18


def test_a_dead_port_costs_the_time_out_and_counts_honestly() -> None:
    with bound() as silent:
        result = series(silent.getsockname()[1], count=30, timeout_ns=SHORT_NS).run()
    assert (result["sent"], result["received"], result["samples"]) == (30, 0, [])
    assert SHORT_NS < result["duration_ns"] < 30 * SHORT_NS  # one time-out, not one a probe


def test_a_host_that_never_answers_costs_the_patience_and_no_second_time_out() -> None:
    """The warm-up is waited for, then the probes; a time-out more after the last one would tell nothing new."""
    with bound() as silent:
        port = silent.getsockname()[1]
        whole = series(port, count=200, interval_ns=1_000_000, timeout_ns=800_000_000).run()
        brief = series(port, count=30, timeout_ns=PATIENT_NS, patience_ns=50_000_000).run()
    assert (whole["sent"], whole["received"], brief["sent"], brief["received"]) == (200, 0, 30, 0)
    waited_ns = 250_000_000 + 200_000_000
    assert whole["duration_ns"] < waited_ns + 800_000_000  # on the code before: at least that
    assert brief["duration_ns"] < PATIENT_NS // 4


def test_a_slow_path_is_read_by_whoever_has_the_patience() -> None:
    """A reply that comes 400 ms after its probe, to a series that is told to wait for it, and to one that is not."""
    with bound() as far:
        replies = threading.Thread(target=_answer_late, args=(far, 0.4))
        replies.start()
        port = far.getsockname()[1]
        brief = series(port, count=5, timeout_ns=2 * 10**9, patience_ns=20_000_000).run()
        whole = series(port, count=5, timeout_ns=PATIENT_NS).run()
        far.sendto(b"end", far.getsockname())
        replies.join()
    assert brief["received"] == 0 and whole["received"] == 5


def _answer_late(sock: socket.socket, seconds: float) -> None:
    """Reflect what comes in after so long, until a packet says end."""
    timers = []
    while (data := sock.recvfrom(2048)) and data[0] != b"end":
        probe, peer = data
        found = packet.parse_probe(probe, TOKEN)
        assert found is not None
        reply = packet.build_reply(found, time.time_ns(), 0, time.time_ns(), 0, 64, (0, 0, 0))
        timers.append(threading.Timer(seconds, sock.sendto, (reply, peer)))
        timers[-1].start()
    for timer in timers:
        timer.cancel()
        timer.join()


def test_a_refused_port_ends_the_series_at_once() -> None:
    with bound() as sock:
        port = sock.getsockname()[1]
    result = series(port, count=1000).run()
    assert result["received"] == 0 and "ECONNREFUSED" in result["reason"]
    assert result["sent"] < 1000


def test_only_packets_with_the_scans_token_are_answered(reflect: Reflect) -> None:
    reflector = reflect()
    good = packet.build_probe(5, 9, 10**18, TOKEN)
    with bound() as sock:
        sock.connect(("127.0.0.1", reflector.port))
        for bad in (b"", b"x", good[:-1], bytes(92), packet.build_probe(4, 9, 1, bytes(16)), bytes(1500)):
            sock.send(bad)
        sock.send(good)
        reply = packet.parse_reply(sock.recv(4096), 9, TOKEN)
        assert reply is not None and reply.seq == 5  # the first answer is to the good one


@pytest.mark.parametrize("padding", [0, 1, 400, 1500])
def test_an_answer_is_never_larger_than_the_question(reflect: Reflect, padding: int) -> None:
    with bound() as sock:
        sock.connect(("127.0.0.1", reflect().port))
        sock.send(packet.build_probe(1, 9, 10**18, TOKEN) + b"p" * padding)
        assert len(sock.recv(4096)) == packet.PACKET_BYTES + padding


def test_each_sender_gets_the_departure_stamps_of_its_own_replies(reflect: Reflect) -> None:
    port = reflect().port
    with bound() as one, bound() as two:
        for sock in (one, two):
            sock.connect(("127.0.0.1", port))
        seen = []
        for seq in range(1, 5):
            for sock in (one, two):
                sock.send(packet.build_probe(seq, 9, 10**18, TOKEN))
                reply = packet.parse_reply(sock.recv(4096), 9, TOKEN)
                assert reply is not None
                seen.append((reply.seq, reply.previous_seq, reply.previous_kernel))
    assert seen == [(s, s - 1, s > 1) for s in range(1, 5) for _ in range(2)]


def test_a_probe_that_comes_twice_is_answered_twice_and_departs_once(reflect: Reflect) -> None:
    """Copies, also late ones, report their own number, and later replies the departure of the first answer."""
    replies = []
    with bound() as sock:
        sock.connect(("127.0.0.1", reflect().port))
        for seq in (1, 2, 2, 3, 2, 4):
            sock.send(packet.build_probe(seq, 9, 10**18, TOKEN))
            reply = packet.parse_reply(sock.recv(4096), 9, TOKEN)
            assert reply is not None and reply.seq == seq
            replies.append(reply)
    assert [(reply.previous_seq, reply.is_of_copy) for reply in replies] == [
        (0, False), (1, False), (2, True), (2, False), (2, True), (3, False),
    ]  # fmt: skip
    _, first, copy, after, late, _ = replies
    assert copy.previous_t3 == after.previous_t3 > 0 and copy.previous_kernel and after.previous_kernel
    assert first.t3 <= after.previous_t3 < copy.t2
    assert late.previous_t3 == 0 and not late.previous_kernel


def test_ports_come_from_the_range_and_a_taken_one_is_passed_over(reflect: Reflect) -> None:
    with bound() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError) as caught:
            reflect(ports=(port, port))
        assert caught.value.errno == errno.EADDRINUSE
        free = reflect().port
        low, high = min(port, free), max(port, free)
        if high - low < 5000:
            assert low <= reflect(ports=(low, high)).port <= high
    assert reflect(ports=(port, port)).port == port


@pytest.mark.parametrize(
    ("foreign", "probed", "everywhere"),
    [("192.0.2.199", "127.0.0.3", "0.0.0.0"), ("2001:db8::199", "::1", "::")],  # documentation addresses
)
def test_an_address_behind_nat_is_served_on_all_and_answers_from_the_probed_one(
    reflect: Reflect, foreign: str, probed: str, everywhere: str
) -> None:
    if ":" in probed and not has_ipv6():
        pytest.skip("no IPv6 on this machine")
    reflector = reflect(foreign)
    assert reflector.address == everywhere
    result = series(reflector.port, probed).run()  # a connected socket takes no other's answers
    assert result["received"] == 20 and result["stamps"] == "kernel"


def test_duplicates_are_counted_once(reflect: Reflect) -> None:
    with bound() as sock:
        stop = threading.Event()

        def answer_twice() -> None:
            while not stop.is_set():
                try:
                    data, peer = sock.recvfrom(2048)
                except OSError:
                    return
                probe = packet.parse_probe(data, TOKEN)
                assert probe is not None
                for _ in range(2):
                    sock.sendto(packet.build_reply(probe, 1000, 3, 2000, 3, 64, (0, 0, 0)), peer)

        thread = threading.Thread(target=answer_twice)
        thread.start()
        result = series(sock.getsockname()[1], count=10).run()
        stop.set()
        with bound() as last:
            last.sendto(packet.build_probe(0, 0, 0, TOKEN), sock.getsockname())
        thread.join(60)
    assert (result["sent"], result["received"]) == (10, 10)
    assert result["duplicates"] >= 9
    assert result["stamps"] == "user"


def test_a_closed_reflector_answers_no_more(reflect: Reflect) -> None:
    reflector = reflect()
    reflector.close()
    result = series(reflector.port, count=5, timeout_ns=SHORT_NS).run()
    assert result["received"] == 0


def test_t2_is_the_kernels_stamp_where_the_reply_says_so(
    reflect: Reflect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By construction, for no busy machine can tell 3 us from 30: the stamp itself comes back, or the label goes."""
    reflector = reflect()
    with bound() as sock:
        sock.connect(("127.0.0.1", reflector.port))
        for seq, stamp in ((1, 1_234_567_890_123_456_789), (2, 0)):
            monkeypatch.setattr(
                "netprobe.probe.agent.stamp.reflector.kernel_stamps.stamp_and_hop_limit",
                lambda _data, its=stamp: (its, 64),
            )
            sock.send(packet.build_probe(seq, 9, 5, TOKEN))
            reply = packet.parse_reply(sock.recv(2048), 9, TOKEN)
            assert reply is not None and reply.seq == seq
            assert bool(reply.t2_kernel) == bool(stamp)
            # Seconds and a binary fraction: the packet rounds to a quarter of a nanosecond.
            assert abs(reply.t2 - stamp) <= 1 if stamp else reply.t2 > 10**18
