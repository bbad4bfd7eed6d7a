"""The loops that numba compiles, run as they stand in Python: each event, cause and byte is the plain engine's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InternalError
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.simulate import engine_kernels
from netprobe.plan.simulate.compiled_run import run_compiled
from netprobe.plan.simulate.engine import Engine, Trace, Work
from netprobe.plan.simulate.engine_kernels import share_out
from netprobe.plan.simulate.fair import fair_rates
from netprobe.plan.simulate.network import Network
from tests.plan.simulate.test_reference import random_case, random_network
from tests.properties import examples


def both(network: Network, work: Work, merge_s: float) -> tuple[Trace, Trace]:
    one = run_compiled(engine_kernels.run_events, network, work, merge_s)
    return one, Engine(network, [work], merge_s=merge_s).run()


@examples(20)
@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.0, 1e-3, 3e-2]), st.booleans())
def test_loops_and_engine_take_the_same_events_at_the_same_times(
    seed: int, merge_s: float, weighted: bool
) -> None:
    network, works, _ = random_case(seed)
    for work in works:
        own = replace(work, lockstep=False)
        if weighted:
            drawn = np.random.default_rng(seed).uniform(0.3, 3.0, len(work.program))
            own = replace(own, weight=drawn)
        one, other = both(network, own, merge_s)
        assert one.finish_s == other.finish_s
        assert np.array_equal(one.end_s[0], other.end_s[0])
        assert np.array_equal(one.cause[0], other.cause[0])
        assert np.array_equal(one.carried, other.carried)


def test_a_network_without_resources_and_a_program_without_end() -> None:
    size = 4
    none = np.zeros(0)
    network = Network(
        hosts=tuple(f"h{i}" for i in range(size)), alpha_s=np.full((size, size), 0.5), resources=(),
        capacity=none, low=none, high=none, passed=np.full((size, size, 0), -1, dtype=np.intp),
        stream=np.full((size, size), 100.0),
    )  # fmt: skip
    schedule = build("ring", 3)
    program = compile_schedule(schedule)
    work = Work(program=program, host=np.array([3, 0, 2]), boundaries=schedule.boundaries(200), release_s=1.5)
    one, other = both(network, work, 0.0)
    # Twice round but one hop: 2 (n - 1) messages of 2 s, half a second under way each.
    assert one.finish_s == other.finish_s == [1.5 + 4 * 2.5]
    assert np.array_equal(one.cause[0], other.cause[0]) and len(one.carried) == 0
    stuck = replace(
        program, after=np.where(np.arange(len(program.after)) == 0, len(program) - 1, program.after)
    )
    with pytest.raises(InternalError, match="wait for ever"):
        both(network, replace(work, program=stuck), 0.0)


@examples(40)
@given(st.integers(0, 10**9), st.booleans())
def test_loops_share_resources_as_the_arrays_do(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    network, flows = random_network(rng), int(rng.integers(1, 9))
    ends = rng.integers(0, len(network.hosts), (flows, 2))
    passed = network.passed[ends[:, 0], ends[:, 1]]
    most = rng.choice([3e5, 2e6, np.inf], flows)
    weight = rng.uniform(0.3, 3.0, flows) if weighted else np.ones(flows)
    count = len(network.capacity)
    room = [np.zeros(count + 1) for _ in range(6)]
    rates, least = np.zeros(flows), np.zeros(flows)
    left, share, lowest, taken, number, gone = room
    share_out(
        flows, np.where(passed < 0, count, passed), network.capacity, most, rates, left, share, lowest, taken,
        least, number, weight, gone, np.zeros(flows, np.int64),
    )  # fmt: skip
    assert rates == pytest.approx(fair_rates(passed, network.capacity, most, weight), rel=1e-12)
