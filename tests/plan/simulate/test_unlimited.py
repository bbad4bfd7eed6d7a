"""Where nothing limits messages, times follow from latencies in one pass; the engine, event by event, says the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.simulate import Job, Network, simulate
from netprobe.plan.simulate.engine import Engine
from tests.plan.simulate.test_compiled import schedules, uneven
from tests.properties import examples


def bare(seed: int, hosts: int) -> Network:
    """Latencies of every pair, by direction, and no limit."""
    net = uneven(seed, hosts, 3)
    return replace(
        net,
        capacity=np.full(len(net.capacity), np.inf),
        stream=np.full((hosts, hosts), np.inf),
        unevenness=0.0,
    )


@examples(10)
@given(st.integers(0, 99), st.integers(4, 9), st.sampled_from([0, 7, 10_000_019]))
def test_one_pass_says_what_every_event_does_to_the_last_bit(seed: int, hosts: int, size: int) -> None:
    net = uneven(seed, hosts, 3) if size == 0 else bare(seed, hosts)
    for schedule in schedules(hosts, 3):
        job = Job(schedule=schedule, order=net.hosts[::-1], size_bytes=size, release_s=0.25)
        near, exact = (simulate(net, [job], exact=kind) for kind in (False, True))
        assert near.time_s == exact.time_s and near.finish_s == exact.finish_s, schedule.name
        assert np.array_equal(near.utilisation, exact.utilisation)


def test_works_that_share_nothing_end_as_each_alone() -> None:
    net = bare(3, 6)
    jobs = [
        Job(schedule=one, order=net.hosts, size_bytes=1000, release_s=at)
        for at, one in enumerate(schedules(6, 3))
    ]
    together = simulate(net, jobs, exact=False)
    assert together.finish_s == tuple(simulate(net, [job], exact=True).finish_s[0] for job in jobs)


def test_a_network_without_limits_is_not_run_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of messages that take no time to leave cost all the same: seconds, of 64 hosts and 1,526 chunks."""

    def run(_: Engine) -> None:
        raise AssertionError("ran event by event")

    monkeypatch.setattr(Engine, "run", run)
    net = bare(1, 9)
    for schedule in schedules(9, 3):
        job = Job(schedule=schedule, order=net.hosts, size_bytes=1000)
        assert simulate(net, [job], exact=False).time_s > 0
