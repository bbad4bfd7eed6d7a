"""TCP flows between real agents on this machine, and the arithmetic of their marks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import itertools
import socket
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent.goodput.flow_receiver import Receiver
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.fleet import Fleet, Member
from netprobe.probe.flows.flows import Flow, close_flows, run_flows
from netprobe.probe.flows.progress import Progress, is_short, parse_marks, parse_reads, too_few_to_time
from netprobe.probe.launchers.exec_launcher import LocalLauncher
from netprobe.probe.records.events import ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome
from tests.probe.conftest import hosts_named, wait_until


def with_fleet(names: str, work: Callable[[Fleet], Awaitable[None]]) -> None:
    """Agents on this machine, one a letter of ``names``, while ``work`` runs."""

    async def main() -> None:
        fleet = Fleet(hosts_named(*names), LocalLauncher(), ScanOptions(), ignore, time.monotonic)
        try:
            await fleet.start()
            await work(fleet)
        finally:
            await fleet.end()

    asyncio.run(asyncio.wait_for(main(), 150))


def resident_mb(pid: int) -> float:
    """Memory of a process that no other one shares, and its share of the rest."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def test_flows_of_one_host_run_at_once_both_ways_and_are_counted_by_their_receivers() -> None:
    async def work(fleet: Fleet) -> None:
        a, b, c = fleet.members
        flows = [Flow(src=a, dst=b, streams=2), Flow(src=b, dst=a), Flow(src=a, dst=c)]
        results = await run_flows(flows, 0.4)
        assert [result.reason for result in results] == [None] * 3
        for result in results:
            assert result.progress is not None
            # The window is the same for all, and each flow was running on both sides of it.
            assert result.duration_s == pytest.approx(0.32)
            assert result.progress.first_s < result.progress.last_s
            assert result.bytes_per_s == pytest.approx(result.bytes / result.duration_s, rel=1e-6, abs=4)
            assert result.congestion_control and result.retransmits is not None
            # A core is all that a thread can take; the senders of two streams are two.
            assert 0 < result.sender_cpu_ratio < 3 and 0 < result.receiver_cpu_ratio < 1.5
        assert results[0].dst_port != results[1].dst_port
        # A sized flow brings every byte, and its time is its own.
        (sized,) = await run_flows([Flow(src=c, dst=b, streams=3)], 60.0, count=60_000_001)
        assert sized.reason is None and sized.progress is not None
        assert sized.progress.total == 60_000_001 and 0 < sized.duration_s < 60
        assert sized.bytes_per_s * sized.duration_s == pytest.approx(sized.bytes, rel=1e-6)
        assert sized.bytes < 60_000_001 and sized.bytes_per_s < 60_000_001 / sized.duration_s
        # A message that is there at once has no rate, however many streams it came by.
        for streams in (1, 4):
            (tiny,) = await run_flows([Flow(src=c, dst=b, streams=streams)], 60.0, count=20_000)
            assert tiny.reason is not None and tiny.reason.startswith("too few bytes to time: ")
        for member in fleet.members:
            assert member.hello is not None and resident_mb(member.hello.pid) < 15

    with_fleet("abc", work)


def test_a_stranger_gets_nothing_and_a_flow_that_cannot_connect_costs_itself_alone() -> None:
    async def work(fleet: Fleet) -> None:
        a, b = fleet.members
        (first,) = await run_flows([Flow(src=a, dst=b)], 0.1)
        assert first.dst_port is not None
        for said in (b"\0" * 16, b"short", b"GET / HTTP/1.0\r\n\r\n"):
            with socket.create_connection((b.address, first.dst_port), timeout=60) as stranger:
                stranger.sendall(said)
                if said == b"short":
                    stranger.shutdown(socket.SHUT_WR)
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    answer = await asyncio.to_thread(stranger.recv, 100)
                assert answer == b""
        b_address, b.address = b.address, "127.0.0.9"
        wrong, good = await run_flows([Flow(src=a, dst=b), Flow(src=b, dst=a)], 0.2)
        b.address = b_address
        assert wrong.reason == f"a: 127.0.0.9 port {first.dst_port} (TCP): Connection refused (ECONNREFUSED)"
        assert good.reason is None and good.bytes_per_s > 0
        await close_flows(fleet.members)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((b.address, first.dst_port), timeout=60)
        # A port outside the range is never taken; one that is taken is said.
        with socket.socket() as taken:
            taken.bind((a.address, 0))
            port = taken.getsockname()[1]
            (refused,) = await run_flows([Flow(src=b, dst=a)], 0.1, ports=(port, port))
        assert refused.reason == f"a: no free TCP port in {port}-{port} (EADDRINUSE)"

    with_fleet("ab", work)


def test_flows_that_are_ended_before_they_begin_say_nothing_on_the_terminal() -> None:
    a, b = (
        Member(index=i, outcome=HostOutcome(host=host), port=9)
        for i, host in enumerate(hosts_named("a", "b"))
    )

    async def main() -> None:
        running = asyncio.create_task(run_flows([Flow(src=a, dst=b)], 0.1))
        await asyncio.sleep(0)  # its first steps are due, and none has been taken
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with warnings.catch_warnings(record=True) as said:  # of a coroutine that was never awaited, say
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(one.message) for one in said] == []


def test_bytes_between_two_moments_are_linear_between_marks_and_nothing_outside_them() -> None:
    progress = Progress.of([(5_000_000_000, 100), (6_000_000_000, 300), (8_000_000_000, 400)])
    assert progress.between(0.0, 1.0) == 200
    assert progress.between(0.5, 2.0) == 150
    assert progress.between(-1.0, -0.5) == 0
    assert progress.between(-1.0, 99.0) == 400
    assert progress.shifted(2.0).between(2.0, 3.0) == 200


@given(
    st.one_of(
        st.none(),
        st.lists(st.lists(st.integers(-5, 1 << 64) | st.floats() | st.booleans(), max_size=3), max_size=5),
        st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)).map(list), max_size=6),
    )
)
def test_marks_from_a_host_are_a_growing_list_or_refused(value: object) -> None:
    try:
        marks = parse_marks(value, slack_s=1.0)
    except ProtocolError:
        return
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(marks))
    if marks:
        progress = Progress.of(marks)
        assert progress.between(-1, progress.last_s) == pytest.approx(progress.total)


class SlowReader:
    """A Receiver fed by hand: what is sent while it does not run waits in the kernel."""

    def __init__(self, streams: int) -> None:
        pairs = [socket.socketpair() for _ in range(streams)]
        self.ends = [ours for ours, _theirs in pairs]
        self.receiver = Receiver(b"0" * 16, streams, 1_000_000, 30 * 10**9)
        self.receiver.socks = [theirs for _ours, theirs in pairs]

    def finish(self) -> Receiver:
        for end in self.ends:
            end.close()
        assert self.receiver.done.wait(60)
        return self.receiver


def test_what_waits_when_the_clock_begins_is_in_the_first_mark_whatever_the_streams() -> None:
    reader = SlowReader(4)
    for end in reader.ends:
        end.sendall(bytes(25_000))
    threading.Thread(target=reader.receiver._run, daemon=True).start()
    burst = reader.finish()
    # As one read would: no second mark, so no 75,000 bytes within the microseconds of three reads.
    assert [total for _at, total in burst.marks] == [100_000] and burst.reads == [0, 0, 0, 0]
    reader = SlowReader(2)
    reader.ends[0].sendall(bytes(30_000))
    threading.Thread(target=reader.receiver._run, daemon=True).start()
    wait_until(lambda: bool(reader.receiver.marks), 60)
    for read in (1, 2, 3):
        reader.ends[1].sendall(bytes(10_000))
        wait_until(functools.partial(lambda least: sum(reader.receiver.reads) >= least, read), 60)
    late = reader.finish()
    assert late.marks[0][1] == 30_000 and late.marks[-1][1] == 60_000
    assert late.reads[0] == 0 and late.reads[1] >= 3


@pytest.mark.parametrize(
    ("arrived", "seconds", "reads", "timed", "short"),
    [
        (0, 0.0, [0, 0, 0, 0], False, True),
        (75_000, 32e-6, [1, 1, 1, 0], False, True),
        (75_000, 50e-6, [5, 5, 5, 5], False, True),
        (500_000, 0.02, [1, 1], False, True),
        (100_000, 0.008, [20], True, True),
        (1_000_000, 0.08, [40, 40, 40, 40], True, False),
        (1_000_000, 0.08, [40, 40, 40, 1], True, True),
        (9_000, 0.3, [6], True, True),
        (4_000_000, 0.336, [900], True, False),
    ],
)
def test_a_rate_needs_bytes_and_time_and_reads(
    arrived: int, seconds: float, reads: list[int], timed: bool, short: bool
) -> None:
    reason = too_few_to_time(arrived, seconds, reads)
    assert (reason is None) == timed and (reason is None or "give a larger --size" in reason)
    assert is_short(arrived, seconds, sum(reads), reads) == short


@given(st.none() | st.lists(st.integers() | st.booleans() | st.floats() | st.none(), max_size=4))
def test_reads_from_a_host_are_one_a_stream_or_refused(value: object) -> None:
    try:
        reads = parse_reads(value, 2)
    except ProtocolError:
        return
    assert len(reads) == 2 and all(type(number) is int and number >= 0 for number in reads)
