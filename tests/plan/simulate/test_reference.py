"""The simulator against one that does the obvious, one event after another, in plain Python."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Background, Job, Network, simulate
from netprobe.plan.simulate.engine import NOTHING, Engine, Work
from netprobe.plan.simulate.fair import fair_rates
from netprobe.plan.simulate.simulate import interval_s
from netprobe.probe.agent.collective.program import RECEIVE, SEND
from tests.properties import examples

HOSTS, RESOURCES = 6, 5


def shares(flows: Sequence[tuple[list[int], float]], capacity: Sequence[float]) -> list[float]:
    """Max-min fair rates by filling: all grow alike, and who is at a limit or on a full resource stops."""
    rate, growing = [0.0] * len(flows), set(range(len(flows)))
    while growing:
        room = [flows[f][1] - rate[f] for f in growing]
        for resource, most in enumerate(capacity):
            users = [f for f in growing if resource in flows[f][0]]
            if users:
                used = sum(rate[f] for f in range(len(flows)) if resource in flows[f][0])
                room.append((most - used) / len(users))
        step = min(room)
        for f in growing:
            rate[f] += step
        if math.isinf(step):
            return rate
        full = {
            resource
            for resource, most in enumerate(capacity)
            if sum(rate[f] for f in range(len(flows)) if resource in flows[f][0]) >= most * (1 - 1e-12)
        }
        growing = {f for f in growing if rate[f] < flows[f][1] * (1 - 1e-12) and not full & set(flows[f][0])}
    return rate


class Plain:
    """All works on a network: what may happen now happens, then time goes on to the next end or arrival."""

    def __init__(
        self, network: Network, works: Sequence[Work], background: Sequence[tuple[int, int, float]]
    ) -> None:
        self.network, self.works = network, works
        self.now = 0.0
        self.acts = {(w, r, a): act for w, work in enumerate(works) for r in range(work.program.ranks)
                     for a, act in enumerate(work.program.actions(r))}  # fmt: skip
        self.end: dict[tuple[int, int, int], float] = {}
        self.lines: dict[tuple[int, int, int, int], deque[tuple[int, int, int]]] = {}
        self.posted: dict[tuple[int, int, int, int], deque[tuple[int, int, int]]] = {}
        for key, act in self.acts.items():
            w, r, _ = key
            if act.kind == SEND:
                self.lines.setdefault((w, r, act.peer, act.channel), deque()).append(key)
            elif act.kind == RECEIVE:
                self.posted.setdefault((w, act.peer, r, act.channel), deque()).append(key)
        self.flying: dict[tuple[int, int, int], float] = {}
        self.arrivals: dict[tuple[int, int, int], float] = {}
        self.fixed = [
            (self.through(s, d), min(most, float(network.stream[s, d]))) for s, d, most in background
        ]

    def through(self, src: int, dst: int) -> list[int]:
        return [int(r) for r in self.network.passed[src, dst] if r >= 0]

    def may(self, key: tuple[int, int, int]) -> bool:
        w, r, _ = key
        act, work = self.acts[key], self.works[w]
        if key in self.end or key in self.flying or self.now < work.release_s - 1e-12:
            return False
        if any((w, r, other) not in self.end for other in act.after):
            return False
        if act.kind == RECEIVE:
            return self.arrivals.get(key, math.inf) <= self.now + 1e-12
        if act.kind == SEND and work.lockstep:
            earlier = [
                k for k, a in self.acts.items() if k[0] == w and a.kind == RECEIVE and a.step < act.step
            ]
            if any(k not in self.end for k in earlier):
                return False
        return act.kind != SEND or self.lines[w, r, act.peer, act.channel][0] == key

    def left(self, key: tuple[int, int, int]) -> None:
        """The last byte of a message is on its way."""
        w, r, _ = key
        act, host = self.acts[key], self.works[w].host
        self.end[key] = self.now
        self.lines[w, r, act.peer, act.channel].popleft()
        receive = self.posted[w, r, act.peer, act.channel].popleft()
        self.arrivals[receive] = self.now + float(self.network.alpha_s[host[r], host[act.peer]])

    def run(self) -> None:
        while len(self.end) < len(self.acts):
            able = [key for key in self.acts if self.may(key)]
            for key in able:
                act, work = self.acts[key], self.works[key[0]]
                if act.kind != SEND:
                    self.end[key] = self.now
                elif size := float(work.boundaries[act.last] - work.boundaries[act.first]):
                    self.flying[key] = size
                else:
                    self.left(key)
            if not able:
                self.forward()

    def forward(self) -> None:
        keys = list(self.flying)
        ends = [(self.works[k[0]].host[k[1]], self.works[k[0]].host[self.acts[k].peer]) for k in keys]
        flows = [*self.fixed, *((self.through(s, d), float(self.network.stream[s, d])) for s, d in ends)]
        rates = shares(flows, self.network.capacity.tolist())[len(self.fixed) :]
        takes = [
            self.flying[k] / rate if math.isfinite(rate) else 0.0 for k, rate in zip(keys, rates, strict=True)
        ]
        waits = [when - self.now for when in self.arrivals.values() if when > self.now + 1e-12]
        waits += [work.release_s - self.now for work in self.works if work.release_s > self.now + 1e-12]
        step = min([*takes, *waits])
        self.now += step
        for key, rate, time in zip(keys, rates, takes, strict=True):
            if time <= step * (1 + 1e-9):
                del self.flying[key]
                self.left(key)
            else:
                self.flying[key] -= rate * step


def random_network(rng: np.random.Generator) -> Network:
    passed = np.full((HOSTS, HOSTS, 3), -1, dtype=np.intp)
    for src, dst in np.ndindex(HOSTS, HOSTS):
        own = rng.permutation(RESOURCES)[: rng.integers(0, 4)]
        passed[src, dst, : len(own)] = own
    capacity = rng.choice([1e6, 2e6, 3.7e6, 9.1e6, np.inf], RESOURCES, p=[0.3, 0.25, 0.2, 0.2, 0.05])
    return Network(
        hosts=tuple(f"h{i}" for i in range(HOSTS)), alpha_s=rng.uniform(0.0, 0.3, (HOSTS, HOSTS)),
        resources=tuple(f"r{i}" for i in range(RESOURCES)), capacity=capacity, low=capacity, high=capacity,
        passed=passed, stream=rng.choice([8e5, 2.5e6, np.inf], (HOSTS, HOSTS)),
    )  # fmt: skip


def random_schedule(rng: np.random.Generator) -> Schedule:
    kind = int(rng.integers(4))
    ranks = int(rng.integers(2, HOSTS + 1))
    if kind == 0 and ranks > 2:
        cut = int(rng.integers(1, ranks))
        return two_level([list(range(cut)), list(range(cut, ranks))], int(rng.integers(1, 5)), channels=2)
    if kind == 1 and ranks > 2:
        return hierarchical([list(range(0, ranks, 2)), list(range(1, ranks, 2))])
    names = [
        "chunked-ring",
        "two-way-ring",
        "halving-doubling",
        "bcube",
        "nccl-tree",
        "binomial-tree",
        "ring",
    ]
    return build(str(rng.choice(names)), ranks, channels=int(rng.integers(1, 3)), blocks=2)


def random_case(seed: int) -> tuple[Network, list[Work], list[tuple[int, int, float]]]:
    rng = np.random.default_rng(seed)
    network, works = random_network(rng), []
    for _ in range(int(rng.integers(1, 3))):
        schedule = random_schedule(rng)
        size = int(rng.choice([0, 3, 1_000_003]))
        host = rng.permutation(HOSTS)[: schedule.ranks].astype(np.intp)
        works.append(
            Work(
                program=compile_schedule(schedule), host=host, boundaries=schedule.boundaries(size),
                release_s=float(rng.choice([0.0, 0.4])), lockstep=bool(rng.random() < 0.3),
            )
        )  # fmt: skip
    pairs = rng.integers(0, HOSTS, (int(rng.integers(0, 3)), 2)).tolist()
    return network, works, [(s, d, float(rng.choice([3e5, np.inf]))) for s, d in pairs if s != d]


@examples(25)
@given(st.integers(0, 10**9))
def test_every_action_ends_when_the_plain_simulator_ends_it(seed: int) -> None:
    network, works, background = random_case(seed)
    plain = Plain(network, works, background)
    plain.run()
    trace = Engine(network, works, background, timeline=True).run()
    bytes_through = np.zeros(RESOURCES)
    for number, work in enumerate(works):
        bounds = work.program.bounds
        wanted = [
            plain.end[number, r, a] for r in range(work.program.ranks) for a in range(work.program.count(r))
        ]
        assert trace.end_s[number].tolist() == pytest.approx(wanted, rel=1e-6, abs=1e-9)
        assert trace.finish_s[number] == pytest.approx(max([*wanted, work.release_s]), rel=1e-6, abs=1e-9)
        check_causes(network, work, trace.end_s[number], trace.cause[number])
        for rank in range(work.program.ranks):
            for act in work.program.actions(rank):
                if act.kind == SEND:
                    through = plain.through(int(work.host[rank]), int(work.host[act.peer]))
                    bytes_through[through] += work.boundaries[act.last] - work.boundaries[act.first]
        assert len(bounds) == work.program.ranks + 1
    # What the works sent has passed, and what the background did besides.
    if not background:
        infinite = np.isinf(network.capacity)
        assert trace.carried[~infinite] == pytest.approx(bytes_through[~infinite], rel=1e-6, abs=1.0)
    assert sum((b - a) * use for a, b, use in trace.steps) == pytest.approx(trace.carried, rel=1e-6, abs=1.0)


def check_causes(network: Network, work: Work, end: Any, cause: Any) -> None:
    """What an action waited for ended when it did, or a latency before it; a send leaves after what it waited for."""
    program = work.program
    rank = program.rank_of()
    for action, before in enumerate(cause.tolist()):
        kind = program.kind[action]
        if before == NOTHING:
            assert kind == SEND or end[action] == pytest.approx(work.release_s, abs=1e-9)
        elif kind == SEND:
            assert rank[before] == rank[action] and end[before] <= end[action] + 1e-9
        else:
            late = 0.0
            if program.kind[before] == SEND and rank[before] != rank[action]:
                late = network.alpha_s[work.host[rank[before]], work.host[rank[action]]]
            assert end[action] == pytest.approx(end[before] + late, rel=1e-6, abs=1e-9)


@examples(40)
@given(st.integers(0, 10**9))
def test_rates_are_those_of_filling_step_by_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    pairs = [(int(s), int(d)) for s, d in rng.integers(0, HOSTS, (9, 2))]
    most = rng.choice([3e5, 2e6, np.inf], 9)
    flows = [
        ([int(r) for r in network.passed[p] if r >= 0], float(m)) for p, m in zip(pairs, most, strict=True)
    ]
    found = fair_rates(np.array([network.passed[p] for p in pairs]), network.capacity, most)
    assert found.tolist() == pytest.approx(shares(flows, network.capacity.tolist()), rel=1e-9)
    none = fair_rates(np.zeros((9, 0), dtype=np.intp), network.capacity, most)
    assert none.tolist() == most.tolist()


@examples(15)
@given(st.integers(0, 10**9), st.sampled_from([1e-4, 1e-2]))
def test_events_taken_for_one_move_no_end_by_much(seed: int, merge_s: float) -> None:
    network, works, background = random_case(seed)
    exact = Engine(network, works, background).run()
    merged = Engine(network, works, background, merge_s=merge_s).run()
    steps = sum(work.program.messages for work in works)
    for one, other in zip(exact.finish_s, merged.finish_s, strict=True):
        assert other == pytest.approx(one, abs=2 * merge_s * steps, rel=0.05)


def test_a_job_is_simulated_as_its_program_is() -> None:
    """Names of hosts, background, jobs that begin late, and capacities at either end of what was measured."""
    rng = np.random.default_rng(8)
    network = random_network(rng)
    schedule = build("chunked-ring", 4)
    order = ["h4", "h1", "h5", "h2"]
    jobs = [
        Job(schedule=schedule, order=order, size_bytes=10**6, release_s=0.25, lockstep=True),
        Job(schedule=schedule, order=order[::-1], size_bytes=10**5, release_s=0.5),
    ]
    works = [
        Work(
            program=compile_schedule(schedule), host=np.array([network.index(h) for h in job.order]),
            boundaries=schedule.boundaries(job.size_bytes), release_s=job.release_s, lockstep=job.lockstep,
        )
        for job in jobs
    ]  # fmt: skip
    trace = Engine(network, works, [(0, 3, 4e5)]).run()
    found = simulate(network, jobs, [Background("h0", "h3", 4e5)], timeline=True)
    assert found.finish_s == tuple(trace.finish_s) and found.exact
    assert found.time_s == pytest.approx(max(trace.finish_s) - 0.25)
    finite = np.isfinite(network.capacity)
    share = (trace.carried / network.capacity / found.time_s)[finite]
    assert found.utilisation[finite] == pytest.approx(share)
    busiest = int(np.argmax(np.where(finite, found.utilisation, 0.0)))
    assert found.busiest is not None and found.busiest[0] == f"r{busiest}"
    assert found.busiest[1] == pytest.approx(share.max())
    late = works[int(np.argmax(trace.finish_s))]
    assert found.critical_path[-1].endswith(late.program.text(int(np.argmax(trace.end_s[works.index(late)]))))

    from dataclasses import replace

    uncertain = replace(network, low=network.capacity / 2, high=network.capacity * 4)
    times = [
        simulate(network.with_capacity(ends), [jobs[1]]).time_s
        for ends in (network.capacity, network.capacity * 4, network.capacity / 2)
    ]
    assert interval_s(uncertain, jobs[1]) == (times[0], times[1], times[2]) and times[1] < times[0] < times[2]
    assert interval_s(network, jobs[1]) == (times[0], None, None)
