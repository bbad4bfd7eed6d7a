"""Walks along made-up ways, what an agent may say of one, and the error queue's entries."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.agent.path import udp_probes as path_socket
from netprobe.probe.agent.path.tasks import Walk
from netprobe.probe.agent.path.udp_probes import EXPIRED, REPLY, SILENCE, TOO_BIG, Outcome, read_error
from netprobe.probe.agent.stamp import packet
from netprobe.probe.agent.stamp.reflector import Reflector
from netprobe.probe.methods.path import checked_path

END = "10.0.0.9"
TOKEN = bytes(range(16))


class FakePath:
    """A way through ``routers`` (None: a silent one). ``mtus`` are those of the links, reported where ``tells``;
    probes whose number is in ``lost`` are lost."""

    header_bytes = 28

    def __init__(
        self,
        routers: list[str | None],
        mtus: list[int],
        *,
        tells: bool = True,
        lost: frozenset[int] = frozenset(),
    ) -> None:
        self.routers, self.mtus, self.tells, self.lost = routers, mtus, tells, lost
        self.sent = 0

    def probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
        self.sent += 1
        if self.sent in self.lost:
            return Outcome(SILENCE)
        for number, mtu in enumerate(self.mtus):
            if size > mtu:
                # The first link is this host's own: the kernel tells of it always.
                return Outcome(TOO_BIG, None, mtu) if self.tells or number == 0 else Outcome(SILENCE)
            if number == len(self.routers):
                return Outcome(REPLY, END)
            if ttl == number + 1:
                router = self.routers[number]
                return Outcome(SILENCE) if router is None else Outcome(EXPIRED, router)
        raise AssertionError("a link more than routers is needed")


def walked(path: FakePath) -> tuple[int, list[str | None], int]:
    walk = Walk(path, 10**9, 10**10)
    assert walk.begin() is None
    return walk.hops(), walk.addresses, walk.mtu()


@given(
    st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", None]), max_size=6),
    st.lists(st.integers(124, 65535), min_size=7, max_size=7),
    st.booleans(),
    st.sets(st.integers(1, 60), max_size=1),
)
def test_a_walk_finds_what_there_is(
    routers: list[str | None], mtus: list[int], tells: bool, lost: set[int]
) -> None:
    path = FakePath(routers, mtus[: len(routers) + 1], tells=tells, lost=frozenset(lost))
    assert walked(path) == (len(routers) + 1, [*routers, END], min(path.mtus))


def test_the_usual_way_costs_a_few_probes() -> None:
    path = FakePath([], [1500])
    assert walked(path) == (1, [END], 1500) and path.sent == 4
    path = FakePath(["10.0.0.1"], [9000, 1500])
    assert walked(path)[2] == 1500 and path.sent == 6


def test_an_end_whose_answers_were_lost_is_not_a_hop_further_away() -> None:
    path = FakePath(
        ["10.0.0.1"], [1500, 1500], lost=frozenset({3, 4})
    )  # both probes with a time to live of 2
    assert walked(path) == (2, ["10.0.0.1", END], 1500)


def test_a_router_that_tells_of_nonsense_is_not_believed() -> None:
    class Lying(FakePath):
        def probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
            outcome = super().probe(ttl, size, patience_ns)
            if outcome.kind == TOO_BIG:
                outcome.mtu = self.sent % 3 * 40_000
            return outcome

    assert walked(Lying(["10.0.0.1"], [1500, 1400]))[2] == 1400


class LossyPath(FakePath):
    """Loses probes and answers at random: each at ``ratio``, and all for a while after one in ``burst``."""

    def __init__(self, mtus: list[int], seed: int, ratio: float, *, tells: bool, burst: int = 0) -> None:
        super().__init__(["10.0.0.1"], mtus, tells=tells)
        self.random, self.ratio, self.burst = random.Random(seed), ratio, burst
        self.dark = 0

    def probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
        outcome = super().probe(ttl, size, patience_ns)
        if size > self.mtus[0]:
            return outcome  # this host's own word is not lost
        if self.burst and not self.dark and self.random.randrange(self.burst) == 0:
            self.dark = self.random.randrange(2, 8)
        if self.dark:
            self.dark -= 1
            return Outcome(SILENCE)
        return outcome if self.random.random() >= self.ratio else Outcome(SILENCE)


@pytest.mark.parametrize(
    ("ratio", "burst", "known"), [(0.01, 0, 0.999), (0.05, 0, 0.99), (0.1, 0, 0.95), (0.02, 30, 0.7)]
)
def test_loss_never_makes_a_wrong_mtu(ratio: float, burst: int, known: float) -> None:
    right = 0
    ways = [([1500, 1500], True), ([9001, 1500], False), ([1500, 1404], False), ([1500, 1450], True),
            ([1500, 1491], False)]  # fmt: skip
    for seed in range(1000):
        mtus, tells = ways[seed % len(ways)]
        found = Walk(LossyPath(mtus, seed, ratio, tells=tells, burst=burst), 10**9, 10**10).mtu()
        assert found in (0, min(mtus)), (seed, mtus)
        right += found > 0
    assert right >= known * 1000


def test_a_late_word_about_a_larger_probe_is_not_one_about_this() -> None:
    class Late(FakePath):
        def probe(self, ttl: int, size: int, patience_ns: int) -> Outcome:
            outcome = super().probe(ttl, size, patience_ns)
            # What the router said of the probe before comes when the next one is waiting.
            return Outcome(TOO_BIG, "10.0.0.1", 1400) if size == 1400 and self.sent % 2 else outcome

    assert walked(Late(["10.0.0.1"], [1500, 1400]))[2] == 1400


def test_no_end_no_path() -> None:
    path = FakePath([], [1500], lost=frozenset(range(1, 99)))
    assert Walk(path, 10**9, 10**10).begin() == "no answer" and path.sent == 3


GOOD: dict[str, Any] = {
    "type": "path", "hops": 2, "addresses": [None, END], "mtu": 1500, "reason": None, "source_port": 7, "sent": 5,
}  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {"hops": 3}, {"hops": -1}, {"hops": True}, {"hops": 65}, {"mtu": 67}, {"mtu": 70_000}, {"mtu": "1500"},
        {"addresses": None}, {"addresses": [1, 2]}, {"addresses": ["\x1b[2J", END]}, {"addresses": [None] * 99},
        {"source_port": 1 << 16}, {"type": "done"}, {"sent": None},
    ],
)  # fmt: skip
def test_what_an_agent_may_not_say(fields: dict[str, Any]) -> None:
    reading = checked_path(GOOD)["path"]
    assert (reading.hops, reading.addresses, reading.mtu_bytes) == (2, [None, END], 1500)
    with pytest.raises(ProtocolError):
        checked_path(GOOD | fields)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text(max_size=9), max_size=3)
)


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), anything))
def test_whatever_an_agent_says_is_a_path_or_a_protocol_error(fields: dict[str, Any]) -> None:
    with contextlib.suppress(ProtocolError):
        checked_path({**GOOD, **fields, "type": "path"})


def test_an_end_that_no_time_to_live_reached_has_a_reason_and_its_mtu() -> None:
    fields = checked_path(GOOD | {"hops": 0, "addresses": [None] * 64})
    assert fields["path"].hops is None and fields["path"].mtu_bytes == 1500 and "up to 64" in fields["reason"]


@given(st.binary(max_size=64), st.booleans())
def test_any_entry_of_the_error_queue_is_read_or_is_nothing(data: bytes, ipv6: bool) -> None:
    level = (41, 25) if ipv6 else (0, 11)
    outcome = read_error([(*level, data)])
    assert outcome is None or outcome.kind in (EXPIRED, TOO_BIG, path_socket.UNREACHABLE)


def test_a_routers_word_has_its_address() -> None:
    sockaddr = struct.pack("@HH4s8x", socket.AF_INET, 0, socket.inet_aton("10.0.0.1"))
    outcome = read_error([(0, 11, struct.pack("@IBBBBII", 113, 2, 11, 0, 0, 0, 0) + sockaddr)])
    assert outcome is not None and (outcome.kind, outcome.address) == (EXPIRED, "10.0.0.1")


def test_a_large_probe_has_a_small_answer_with_the_token_only() -> None:
    reflector = Reflector("127.0.0.1", (0, 0), TOKEN, "user")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", reflector.port))
            sock.settimeout(5)
            for length in (packet.LARGE_BYTES, 9000, 65507):
                sock.send(packet.build_large_probe(length, 9, 10**18, TOKEN, length))
                reply = packet.parse_reply(sock.recv(70_000), 9, TOKEN)
                assert reply is not None and reply.seq == length
    finally:
        reflector.close()
