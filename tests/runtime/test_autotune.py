"""Masters moved in mid-run, on all ranks at once; the kernel's counters of connections."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.runtime.autotune import reading_of
from netprobe.runtime.sockets import (
    Counters,
    LinkRates,
    counters_of,
    own_connections,
    peers_of,
    read_counters,
)
from tests.runtime import jobs
from tests.runtime.pool import Pool

PLANS: dict[str, Callable[[], SchedulePlan]] = {
    "2lha": lambda: jobs.plan_of(two_level([[0, 1], [2, 3]], 4, channels=2)),
    "flat": lambda: jobs.plan_of(build("flat", 4)),
}


@pytest.mark.parametrize("name", PLANS)
def test_masters_move_in_mid_run_on_all_ranks_and_sums_stay_right(pool: Pool, name: str) -> None:
    found = pool.run(jobs.tuned, PLANS[name](), None, ranks=4)
    digests = [[digest for digest, _ in seen] for seen, *_ in found]
    assert all(right for seen, *_ in found for _, right in seen)
    assert digests == [digests[0]] * 4
    # As it was cut at first, and with other masters after the change was seen in two windows of two iterations.
    assert digests[0] == [digests[0][0]] * 10 + [digests[0][-1]] * 6 and digests[0][0] != digests[0][-1]
    for rank, (_, log, told, peers) in enumerate(found):
        assert len(log) == 8 and "quick: h0 sends" in log[4]
        assert told == ([log[4]] if rank == 0 else [])
        assert peers == [other for other in range(4) if other != rank]


def test_the_hook_tells_rank_0_of_a_change_and_no_other(pool: Pool) -> None:
    found = pool.run(jobs.tuned, PLANS["2lha"](), None, True, ranks=4)
    for rank, (seen, log, told, _) in enumerate(found):
        assert all(right for _, right in seen)
        assert len(log) == 8 and "quick: h0 sends" in log[4]
        assert told == ([log[4]] if rank == 0 else [])


def test_a_plan_without_masters_is_watched(pool: Pool) -> None:
    found = pool.run(jobs.tuned, jobs.plan_of(build("chunked-ring", 4)), None, ranks=4)
    for seen, log, told, _ in found:
        assert len(set(seen)) == 1 and seen[0][1]
        assert "plan anew" in log[4] and not told


def test_a_rank_that_makes_another_schedule_stops_all_and_is_named(pool: Pool) -> None:
    found = pool.run(jobs.tuned, PLANS["2lha"](), 2, ranks=4)
    assert found == [("WrongWorldError", (2,), 1)] * 4


def test_connections_of_this_process_are_found_and_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
            own = own_connections()
            assert {near.fileno(), far.fileno()} <= own.keys() and server.fileno() not in own
            assert own[near.fileno()] == own[far.fileno()][::-1]
            peers = peers_of([{5: own[near.fileno()]}, {9: own[far.fileno()], 3: ("a 1", "b 2")}])
            assert peers == [{5: 1}, {9: 0}]
            assert read_counters([near.fileno()]).keys() <= {near.fileno()}
        assert read_counters([1 << 20]) == {}


def test_a_link_is_as_fast_as_its_connections_while_they_are_busy() -> None:
    """Two connections to rank 2, one of which sent nothing; one to rank 0, new since; nothing to rank 1 but a byte."""
    first = {3: Counters(1000, 1.0, 0.1, 0), 4: Counters(50, 1.0, 0.9, 0), 6: Counters(7, 2.0, 0.2, 0)}
    then = {
        **first,
        3: Counters(4000, 1.5, 0.2, 0),
        5: Counters(10, 1.0, 0.3, 0),
        6: Counters(8, 2.0, 0.2, 0),
    }
    counters = iter([first, then, then])
    rates = LinkRates({3: 2, 4: 2, 5: 0, 6: 1}, 4, read=lambda _: next(counters))
    found, rtt_s = rates.take()
    assert np.array_equal(found, [np.nan, np.nan, 6000.0, np.nan], equal_nan=True) and rtt_s == 0.2
    again, rtt_s = rates.take()
    assert np.isnan(again).all() and np.isnan(rtt_s)


def test_counters_are_read_where_the_kernel_has_them() -> None:
    info = bytearray(232)
    struct.pack_into("=I", info, 68, 1500)
    struct.pack_into("=I", info, 100, 7)
    struct.pack_into("=Q", info, 120, 1 << 40)
    struct.pack_into("=Q", info, 168, 2_500_000)
    found = counters_of(bytes(info))
    assert found is not None
    assert (found.rtt_s, found.retransmits, found.acked_bytes, found.busy_s) == (0.0015, 7, 1 << 40, 2.5)
    assert counters_of(bytes(104)) is None


def test_a_reading_takes_the_last_to_begin_and_the_slower_direction() -> None:
    said: list[Any] = [
        [[3.0, 1.0], [None, 4.0, 6.0], 0.1],
        [[2.0, 2.0], [1.0, None, 1.0], None],
        [[9.0, 9.0], [None, None, None], 0.3],
    ]
    found = reading_of(said, 100.0, [[0, 1], [2]])
    assert found.seconds == 1.5 and found.size_bytes == 100.0
    assert found.rates.tolist() == [1.0, 2.0, 7.0]
    assert found.between.tolist() == [7.0, 0.0]
    assert found.rtt_s[0] == 0.1 and np.isnan(found.rtt_s[1])
