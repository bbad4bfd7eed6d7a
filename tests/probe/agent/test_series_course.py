"""When probes leave, how long answers are waited for, and what ends a series: on a clock that stands still."""

from __future__ import annotations

import errno
import importlib.util
import itertools
from typing import Any

import pytest

from netprobe.probe.agent import kernel_stamps, pacing
from netprobe.probe.agent.icmp import packets as icmp_packets
from netprobe.probe.agent.icmp import sender as icmp_sender
from netprobe.probe.agent.stamp import packet
from netprobe.probe.agent.stamp import sender as stamp_sender
from netprobe.probe.agent.stamp.sender import Probing, Series
from tests.probe.agent.wire import US, WALL, Wire

TOKEN = bytes(range(16))
MS = 1000 * US
COUNT, SPACING, TIMEOUT = 20, MS, 1000 * MS
needs_scapy = pytest.mark.skipif(importlib.util.find_spec("scapy") is None, reason="scapy is not installed")


class Course(Wire):
    """A wire whose answers take ``takes_ns`` of a packet's number (None: lost), and that refuses ``errors``.

    ``left_at`` is when each packet left, on the monotonic clock; refusals count as packets.
    """

    def __init__(self, takes_ns: Any, errors: dict[int, int] | None = None, grants: str = "kernel") -> None:
        super().__init__(self.answers, grants)
        self.takes_ns, self.errors = takes_ns, errors or {}
        self.began = self.now
        self.left_at: list[int] = []
        self.previous = (0, 0, 0)

    def send(self, data: bytes) -> int:
        self.left_at.append(self.now - self.began)
        if len(self.left_at) - 1 in self.errors:
            code = self.errors[len(self.left_at) - 1]
            raise OSError(code, "refused here")
        return super().send(data)

    def answers(self, data: bytes, left: int) -> list[tuple[int, bytes]]:
        takes = self.takes_ns(len(self.left_at) - 1)
        return [] if takes is None else [(left + takes, self.reply(data, left + takes // 2))]

    def reply(self, data: bytes, there: int) -> bytes:
        probe = packet.parse_probe(data, TOKEN)
        assert probe is not None
        reply = packet.build_reply(
            probe, there, packet.METHOD_SOFTWARE, there, packet.METHOD_USER, 64, self.previous
        )
        self.previous = (probe.seq, there, packet.METHOD_SOFTWARE)
        return reply


class EchoCourse(Course):
    def reply(self, data: bytes, there: int) -> bytes:
        return bytes.fromhex("4500005400004000400100000a0000020a000001") + b"\0" + data[1:]


def stamp_run(monkeypatch: pytest.MonkeyPatch, wire: Course, best: str = "kernel", **more: Any) -> Any:
    wire.stand_in(monkeypatch, stamp_sender, pacing)
    monkeypatch.setattr(kernel_stamps, "udp_socket", lambda _address: wire)
    monkeypatch.setattr(stamp_sender, "bind_source", lambda *_arguments: None)
    values = {"count": COUNT, "interval_ns": SPACING, "timeout_ns": TIMEOUT, "best": best, **more}
    result = Series("10.0.0.2", 9, "10.0.0.1", TOKEN, 7, Probing(**values)).run()
    return result, result["samples"]


def echo_run(monkeypatch: pytest.MonkeyPatch, wire: Course, best: str = "kernel", **more: Any) -> Any:
    icmp_packets.load()
    echoes = icmp_sender.Echoes(ipv6=False, count=COUNT)
    wire.stand_in(monkeypatch, icmp_sender, pacing)
    monkeypatch.setattr(icmp_sender, "_raw_socket", lambda _ipv6: wire)
    times = {"interval_ns": SPACING, "timeout_ns": TIMEOUT, **more}
    return icmp_sender.EchoSeries(
        "10.0.0.2", "10.0.0.1", echoes, times["interval_ns"], times["timeout_ns"], best
    ).run()


both = pytest.mark.parametrize(
    ("run", "kind"),
    [
        pytest.param(stamp_run, Course, id="stamp"),
        pytest.param(echo_run, EchoCourse, id="icmp", marks=needs_scapy),
    ],
)


@both
@pytest.mark.parametrize("best", ["kernel", "user"])
def test_probes_leave_in_their_intervals_once_the_warm_up_is_answered(
    monkeypatch: pytest.MonkeyPatch, run: Any, kind: Any, best: str
) -> None:
    wire = kind(lambda number: 30 * MS if number == 0 else 100 * US)
    answer, samples = run(monkeypatch, wire, best)
    leaves = wire.left_at[1 : COUNT + 1]
    assert 30 * MS < leaves[0] < 30 * MS + 200 * US
    gaps = [after - before for before, after in itertools.pairwise(leaves)]
    assert all(SPACING / 2 - 5 * US < gap < 1.5 * SPACING + 60 * US for gap in gaps)
    assert max(gaps) - min(gaps) > 0.3 * SPACING  # spread, not in step
    assert (answer["sent"], answer["received"], answer["unsent"]) == (COUNT, COUNT, 0)
    assert answer["reason"] is None and answer["stamps"] == best
    assert [seq for seq, _sent, _rtt in samples] == list(range(1, COUNT + 1))
    assert all(abs(sent - left) < 5 * US for (_seq, sent, _rtt), left in zip(samples, leaves))
    # All are answered: nothing is waited for beyond the last answer.
    assert leaves[-1] < answer["duration_ns"] < leaves[-1] + 2 * SPACING


@both
def test_a_warm_up_without_an_answer_costs_a_quarter_of_a_second(
    monkeypatch: pytest.MonkeyPatch, run: Any, kind: Any
) -> None:
    wire = kind(lambda number: None if number == 0 else 100 * US)
    answer, _samples = run(monkeypatch, wire)
    assert 250 * MS <= wire.left_at[1] < 251 * MS
    assert (answer["sent"], answer["received"]) == (COUNT, COUNT)
    wire = kind(lambda number: None if number == 0 else 100 * US)
    run(monkeypatch, wire, timeout_ns=40 * MS)
    assert 40 * MS <= wire.left_at[1] < 41 * MS  # nor more than the time-out


@both
def test_a_host_that_never_answers_costs_about_the_time_out(
    monkeypatch: pytest.MonkeyPatch, run: Any, kind: Any
) -> None:
    answer, samples = run(monkeypatch, kind(lambda number: None))
    assert (answer["sent"], answer["received"], samples) == (COUNT, 0, [])
    assert TIMEOUT <= answer["duration_ns"] < TIMEOUT + 300 * MS


def test_patience_bounds_the_wait_for_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Course(lambda number: None)
    answer, _ = stamp_run(monkeypatch, wire, patience_ns=100 * MS)
    # The warm-up's wait, the probes, and the wait of the flush.
    assert 200 * MS < answer["duration_ns"] < 200 * MS + 1.5 * COUNT * SPACING
    assert len(wire.left_at) == COUNT + 2  # with one flush only
    short = stamp_run(monkeypatch, Course(lambda number: None), timeout_ns=5 * MS)[0]
    assert 20 * MS < short["duration_ns"] < 60 * MS  # at least the least grace after the probes
    longer = stamp_run(monkeypatch, Course(lambda number: None), patience_ns=9 * TIMEOUT)[0]
    assert longer["duration_ns"] < TIMEOUT + MS


@both
def test_an_answer_after_the_time_out_is_a_loss(monkeypatch: pytest.MonkeyPatch, run: Any, kind: Any) -> None:
    wire = kind(lambda number: 41 * MS if number in (5, 9) else 100 * US)
    answer, samples = run(monkeypatch, wire, timeout_ns=40 * MS)
    assert (answer["sent"], answer["received"]) == (COUNT, COUNT - 2)
    assert not {5, 9} & {seq for seq, _sent, _rtt in samples}
    # The same answers are in time for a longer time-out, also those that come when all have left.
    wire = kind(lambda number: 41 * MS if number in (5, COUNT) else 100 * US)
    answer, _samples = run(monkeypatch, wire)
    assert answer["received"] == COUNT or answer["duration_ns"] < 200 * MS


@pytest.mark.parametrize("lost", [{7}, {COUNT}, {COUNT, COUNT + 1}])
def test_a_loss_costs_four_times_the_longest_way_or_the_least_grace(
    monkeypatch: pytest.MonkeyPatch, lost: set[int]
) -> None:
    for takes, grace in ((100 * US, 20 * MS), (30 * MS, 120 * MS)):
        wire = Course(lambda number, takes=takes: None if number in lost else takes)
        answer, _ = stamp_run(monkeypatch, wire)
        assert (answer["sent"], answer["received"]) == (COUNT, COUNT - len(lost & {7, COUNT}))
        flushes = 1 + (COUNT + 1 in lost)
        assert len(wire.left_at) == COUNT + 1 + flushes
        waits = answer["duration_ns"] - wire.left_at[COUNT]
        # For the lost flush, then for the probe itself.
        assert flushes * grace < waits < flushes * grace + takes + 3 * SPACING, waits / MS


@both
@pytest.mark.parametrize("code", [errno.ECONNREFUSED, errno.EPERM, errno.EHOSTUNREACH])
def test_refusals_end_a_series_at_the_third_and_only_without_any_answer(
    monkeypatch: pytest.MonkeyPatch, run: Any, kind: Any, code: int
) -> None:
    wire = kind(lambda number: None, dict.fromkeys(range(99), code))
    answer, samples = run(monkeypatch, wire)
    assert len(wire.left_at) == 3 and (answer["received"], samples) == (0, [])
    assert answer["reason"] == f"refused here ({errno.errorcode[code]})"
    assert answer["sent"] == 0
    for refused in ({0: code}, {0: code, 1: code}, dict.fromkeys(range(3, 9), code)):
        wire = kind(lambda number: 100 * US, refused)
        answer, _samples = run(monkeypatch, wire)
        probes = len(set(refused) - {0})
        assert answer["reason"] is None
        assert (answer["sent"], answer["received"]) == (COUNT - probes, COUNT - probes)
        assert answer["stamps"] == "kernel"  # numbered anew, each departure is still its own probe's


def test_what_no_other_probe_could_do_ends_a_stamp_series_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Course(lambda number: None, {0: errno.EINVAL})
    assert stamp_run(monkeypatch, wire)[0]["reason"] == "refused here (EINVAL)" and len(wire.left_at) == 1


@both
def test_a_full_queue_costs_its_probes_and_is_counted(
    monkeypatch: pytest.MonkeyPatch, run: Any, kind: Any
) -> None:
    full = dict.fromkeys((4, 6, 11), errno.ENOBUFS)
    answer, samples = run(monkeypatch, kind(lambda number: 100 * US, full))
    assert (answer["unsent"], answer["sent"], answer["received"]) == (3, COUNT - 3, COUNT - 3)
    assert answer["reason"] is None
    # The levels are the kernel's, and every reading is its own: 100 us whichever was numbered anew.
    assert {rtt for _seq, _sent, rtt in samples} == {100 * US}
    assert not {4, 6, 11} & {seq for seq, _sent, _rtt in samples}


def test_the_wall_clock_is_not_the_monotonic_one() -> None:
    assert WALL > 10**18  # else a mix of the two would go unseen in the above
