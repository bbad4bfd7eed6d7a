"""Readings of probes that only their sender stamps, and from which ports they come."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent.listening import bind_source
from netprobe.probe.agent.round_trips import RoundTrips

US, MS = 1_000, 1_000_000


def trips(*rtts: int, count: int = 10) -> RoundTrips:
    """A warm-up and a probe a ms, each answered after so many ns."""
    made = RoundTrips(count, 1000 * MS)
    for seq, rtt in enumerate((300 * US, *rtts)):
        made.sent(seq, seq * MS)
        made.answered(seq, seq * MS + rtt)
    return made


def test_the_first_to_arrive_is_dropped_whichever_it_is() -> None:
    assert trips(100 * US, 101 * US).result(0) == ("user", [(1, MS, 100 * US), (2, 2 * MS, 101 * US)], 0)
    late = RoundTrips(2, 1000 * MS)
    for seq in range(3):
        late.sent(seq, seq * MS)
    late.answered(2, 3 * MS)
    late.answered(1, 4 * MS)
    assert late.result(0) == ("user", [(1, MS, 3 * MS)], 0)
    assert (late.sent_count, late.received) == (2, 2)


def test_duplicates_late_answers_and_strangers_are_no_readings() -> None:
    made = trips(100 * US)
    assert not made.answered(1, 3 * MS) and made.duplicates == 1
    assert not made.answered(7, 3 * MS)
    made.sent(2, 0)
    assert not made.answered(2, 1001 * MS) and made.received == 1
    assert made.answered(2, 1001 * MS, took_ns=100 * US)  # it had waited in a queue, says the kernel


def test_levels_are_not_mixed_and_what_cannot_be_is_rejected() -> None:
    made = trips(*[200 * US] * 4)
    for seq, rtt in ((1, 100 * US), (2, -5), (3, 300 * US)):
        made.by_kernel(seq, rtt)
    assert made.result(0) == ("kernel", [(1, MS, 100 * US)], 2)
    made = trips(*[200 * US] * 4)
    made.by_kernel(1, 100 * US)
    assert made.result(0)[0] == "user"


@given(
    st.lists(
        st.tuples(st.sampled_from("sak"), st.integers(0, 6), st.integers(-(1 << 40), 1 << 40)), max_size=40
    )
)
def test_whatever_comes_counts_add_up(steps: list[tuple[str, int, int]]) -> None:
    made = RoundTrips(5, 1000 * MS)
    for kind, seq, value in steps:
        if kind == "s":
            made.sent(seq, value)
        elif kind == "a":
            made.answered(seq, value)
        else:
            made.by_kernel(seq, value)
    _level, samples, rejected = made.result(0)
    assert all(1 <= seq <= 5 and rtt > 0 for seq, _sent, rtt in samples)
    assert len(samples) + rejected <= made.received


def test_a_source_port_is_free_and_none_of_those_before() -> None:
    used: list[int] = []
    for _ in range(20):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            bind_source(sock, "127.0.0.1", used)
            used.append(sock.getsockname()[1])
    assert len(set(used)) == 20
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        bind_source(sock, "192.0.2.1", used)  # none of ours: behind NAT, say
        assert sock.getsockname()[0] == "0.0.0.0"
