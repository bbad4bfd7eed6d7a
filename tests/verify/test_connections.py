"""What the agents of a run are told, and what is made of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.hosts import make_host
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.program import compile_schedule
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.records.result import HostOutcome
from netprobe.verify import wire
from netprobe.verify.run import Contender, Contenders, _ring_links, _runs
from netprobe.verify.runner import Batch, StoppedRunError
from netprobe.verify.wire import Run, WireRunner, chunk_sizes


class Agents:
    """Stands for the agents of a fleet: keeps what each was asked, and answers as it should, or as told."""

    def __init__(self, count: int) -> None:
        self.asked: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        self.timeouts: list[tuple[str, float]] = []
        self.members = []
        for place in range(count):
            own = HostOutcome(host=make_host(f"h{place}"))
            member = Member(index=place, outcome=own, address=f"10.0.0.{place}", port=9)
            member.connection = SimpleNamespace(lost=None, request=self.answering(place))  # type: ignore[assignment]
            self.members.append(member)
        self.times = {place: [5 + place, 90 - place] for place in range(count)}
        self.faults: dict[int, list[Any]] = {}

    def answering(self, place: int) -> Any:
        actions = 0

        async def request(message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
            nonlocal actions
            self.asked[place].append(message)
            self.timeouts.append((message["type"], timeout_s))
            if message["type"] == "collective_open":
                actions = 0
                return {"type": "opened", "port": 1000 + place}
            if message["type"] == "collective_load":
                actions = len(message["rows"]) + (actions if message["rows"] is not None and self.more else 0)
                return {"actions": actions}
            if message["type"] == "collective_connect":
                return {"faults": self.faults.get(place, [])}
            if message["type"] == "collective_run":
                return {
                    "durations_ns": self.times[place],
                    "sent": 7,
                    "code": None,
                    "reason": None,
                    "peer": None,
                }
            return {}

        return request

    more = False


def runs_of(*names: str, ranks: int = 4, orders: Sequence[Sequence[int]] | None = None) -> list[Run]:
    made = []
    for at, name in enumerate(names):
        schedule = build(name, ranks)
        order = tuple(orders[at]) if orders else tuple(range(ranks))
        made.append(Run(schedule, compile_schedule(schedule), order))
    return made


def test_every_pair_that_any_order_needs_is_called_once_and_from_one_side() -> None:
    ranks = 7
    runs = runs_of("chunked-ring", "bcube", ranks=ranks, orders=[[3, 0, 6, 1, 5, 2, 4], list(range(ranks))])
    agents = Agents(ranks)
    runner = WireRunner(agents.members, runs, size_bytes=1000, ports=(900, 1900))
    asyncio.run(runner.open())
    connects = [next(m for m in own if m["type"] == "collective_connect") for own in agents.asked]
    opens = [next(m for m in own if m["type"] == "collective_open") for own in agents.asked]
    assert len({m["token"] for m in opens}) == ranks and {tuple(m["ports"]) for m in opens} == {(900, 1900)}
    calls = {(place, call[0]) for place, m in enumerate(connects) for call in m["dial"]}
    for place, message in enumerate(connects):
        assert message["place"] == place and message["members"] == ranks and message["channels"] == 1
        assert message["source"] == f"10.0.0.{place}"
        for peer, address, port, token in message["dial"]:
            assert (address, port, token) == (f"10.0.0.{peer}", 1000 + peer, opens[peer]["token"])
            assert place in connects[peer]["accept"]
        assert message["accept"] == sorted(other for other, called in calls if called == place)
    pairs = {frozenset(call) for call in calls}
    assert len(pairs) == len(calls)
    needed = {frozenset(run.order[end] for end in link) for run in runs for link in run.program.links()}
    needed |= {frozenset((p, (p + step) % ranks)) for p in range(ranks) for step in (1, 2, 4)}
    assert pairs == needed
    # Each calls about half of its peers.
    degree = [sum(place in pair for pair in pairs) for place in range(ranks)]
    for place in range(ranks):
        assert abs(2 * len(connects[place]["dial"]) - degree[place]) <= 3


def test_each_agent_is_loaded_with_the_actions_of_its_rank_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (run,) = runs_of("chunked-ring", orders=[[2, 0, 3, 1]])
    monkeypatch.setattr(wire, "ROWS_BYTES", 60)
    agents = Agents(4)
    agents.more = True
    asyncio.run(WireRunner(agents.members, [run], size_bytes=1003).open())
    for place in range(4):
        loads = [m for m in agents.asked[place] if m["type"] == "collective_load"]
        assert len(loads) > 2
        rank = run.order.index(place)
        rows = [row for load in loads for row in load["rows"]]
        wanted = []
        for a in run.program.actions(rank):
            peer = a.peer if a.peer < 0 else run.order[a.peer]
            wanted.append([a.kind, a.first, a.last, peer, a.channel, int(a.reduces), list(a.after)])
        assert rows == wanted
        for load in loads:
            assert (load["program"], load["rank"], load["ranks"]) == (0, rank, 4)
            assert load["sizes"] == [[3, 251], [1, 250]] and load["owed"] == [[0, 4, "f"]]
    assert chunk_sizes(build("chunked-ring", 4), 8) == [[4, 2]]
    few = Agents(4)  # which say that they hold the last portion alone
    with pytest.raises(StoppedRunError, match="holds 1 actions|holds 2 actions|holds 0 actions"):
        asyncio.run(WireRunner(few.members, [run], size_bytes=1003).open())
    broken = Agents(4)
    broken.more = True
    broken.faults[2] = [[1, "refused"]]
    with pytest.raises(StoppedRunError, match="h2: no connection with h1: refused"):
        asyncio.run(WireRunner(broken.members, [run], size_bytes=1003).open())


def test_a_repetition_takes_as_long_as_the_slowest_rank() -> None:
    agents = Agents(4)
    runner = WireRunner(agents.members, runs_of("chunked-ring"), size_bytes=1000)
    batch = asyncio.run(runner.repeat([0, 0], 2.5))
    assert batch == Batch(seconds=(8e-9, 90e-9)) and runner.repetitions == 2 and runner.sent_bytes == 28
    (message,) = agents.asked[1]
    assert message == {"type": "collective_run", "sequence": [0, 0], "limit_ns": 2_500_000_000}
    assert agents.timeouts[0] == ("collective_run", 12.5)
    asyncio.run(runner.close())
    assert agents.asked[3][-1] == {"type": "collective_close"}
    for order in ([0, 1, 2, 2], [0, 1, 2]):
        with pytest.raises(ValueError):
            WireRunner(agents.members, runs_of("chunked-ring", orders=[order]), size_bytes=1)
    with pytest.raises(ValueError):
        WireRunner(agents.members, runs_of("chunked-ring", ranks=3, orders=[[0, 1, 2, 3]]), size_bytes=1)


def contenders(count: int, surveyed: int = 0) -> Contenders:
    orders = [
        Contender(name=f"o{i}", order=tuple(np.roll(range(4), i).tolist()))
        for i in range(1 + count + surveyed)
    ]
    return Contenders(
        proposed=orders[0], baselines=tuple(orders[1 : 1 + count]), surveyed=tuple(orders[1 + count :])
    )


def test_orders_of_hosts_become_orders_of_members_and_programs_are_made_once() -> None:
    own = build("bcube", 3)
    made = Contenders(
        proposed=Contender(name="plan", order=(7, 2, 5), schedule=own),
        baselines=(Contender(name="given", order=(2, 5, 7)), Contender(name="other", order=(5, 7, 2))),
    )
    runs = _runs(made, "chunked-ring", [2, 5, 7], 2)
    assert [run.order for run in runs] == [(2, 0, 1), (0, 1, 2), (1, 2, 0)]
    assert runs[0].schedule is own and runs[1].program is runs[2].program and runs[1].program.channels == 2
    fleet: Any = SimpleNamespace(members=["a", "b", "c", "d"])
    links: Any = _ring_links(fleet, contenders(1))
    assert links == [*zip("abcd", "bcda", strict=True), *zip("dabc", "abcd", strict=True)]
