"""The compiled engine says what the plain one does, to the last bit; and without numba the plain one runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netprobe.core.errors import InternalError
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Job, Network, simulate
from netprobe.plan.simulate.compiled_run import COMPILED_FROM, compiled_engine, run_compiled
from netprobe.plan.simulate.engine import Engine, Work
from tests.plan.simulate.test_simulate import RATE, network, racks


def uneven(seed: int, hosts: int, rack: int) -> Network:
    """Every rate, latency and connection with a value of its own; some connections without a limit."""
    net, drawn = network(racks(hosts, rack), uplink=RATE), np.random.default_rng(seed)
    stream = np.where(
        drawn.random((hosts, hosts)) < 0.5, np.inf, RATE * drawn.uniform(0.2, 1.0, (hosts, hosts))
    )
    capacity = net.capacity * drawn.uniform(0.5, 1.5, len(net.capacity))
    capacity[0] = np.inf
    return replace(
        net,
        unevenness=0.6,
        capacity=capacity,
        stream=stream,
        alpha_s=net.alpha_s * drawn.uniform(0.0, 2.0, (hosts, hosts)),
    )


def schedules(hosts: int, rack: int) -> list[Schedule]:
    names = ("chunked-ring", "halving-doubling", "bcube", "flat")
    return [
        *(build(name, hosts) for name in names),
        build("nccl-tree", hosts, 2, 6),
        two_level(racks(hosts, rack), 8),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("merge_s", "draw"), [(None, None), (0.0, None), (2e-3, None), (0.0, 1), (2e-3, 2)])
def test_the_compiled_run_and_the_plain_one_agree_to_the_last_bit(
    merge_s: float | None, draw: int | None
) -> None:
    if compiled_engine(COMPILED_FROM) is None:
        pytest.skip("numba cannot be used here")
    for seed, (hosts, rack) in enumerate(((7, 3), (8, 8))):
        net = uneven(seed, hosts, rack)
        for size in (10_000_019, 3):
            for schedule in schedules(hosts, rack):
                job = Job(schedule=schedule, order=net.hosts[::-1], size_bytes=size, release_s=0.25)
                one, two = (
                    simulate(net, [job], merge_s=merge_s, compiled=how, draw=draw) for how in (True, False)
                )
                assert one.time_s == two.time_s and one.finish_s == two.finish_s, schedule.name
                assert np.array_equal(one.utilisation, two.utilisation)
                assert one.critical_path == two.critical_path


@pytest.mark.slow
def test_a_program_that_waits_for_ever_is_refused_by_both() -> None:
    kernel = compiled_engine(COMPILED_FROM)
    if kernel is None:
        pytest.skip("numba cannot be used here")
    net, schedule = network(racks(3, 3)), build("chunked-ring", 3)
    program = compile_schedule(schedule)
    stuck = replace(
        program, after=np.where(np.arange(len(program.after)) == 0, len(program) - 1, program.after)
    )
    work = Work(program=stuck, host=np.arange(3), boundaries=schedule.boundaries(900))
    with pytest.raises(InternalError):
        Engine(net, [work]).run()
    with pytest.raises(InternalError):
        run_compiled(kernel, net, work, 0.0)


def test_without_numba_the_plain_engine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netprobe.plan.simulate.compiled_run.numba_is_installed", lambda: False)
    monkeypatch.setattr("netprobe.plan.simulate.compiled_run._FOUND", [])
    monkeypatch.setattr("netprobe.plan.simulate.compiled_run._SIMULATED", [0])
    assert compiled_engine(COMPILED_FROM) is None
    net = network(racks(4, 2))
    job = Job(schedule=build("chunked-ring", 4), order=net.hosts, size_bytes=1000)
    assert simulate(net, [job], compiled=True).time_s == simulate(net, [job], compiled=False).time_s


def test_it_is_compiled_when_a_process_has_simulated_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = object()
    monkeypatch.setattr("netprobe.plan.simulate.compiled_run.numba_is_installed", lambda: True)
    monkeypatch.setattr("netprobe.plan.simulate.engine_kernels.kernels", lambda: ready)
    monkeypatch.setattr("netprobe.plan.simulate.compiled_run._FOUND", [])
    monkeypatch.setattr("netprobe.plan.simulate.compiled_run._SIMULATED", [0])
    half = COMPILED_FROM // 2
    assert [compiled_engine(half) for _ in range(3)] == [None, ready, ready] and compiled_engine(1) is ready
