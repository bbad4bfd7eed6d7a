"""Orders run by netprobe's own agents over plain TCP: the controller's end of the ``collective_*`` tasks.

All orders share one set of connections, made once. The time of a repetition is the longest of any rank's, from its
leaving the barrier to the end of its last action; each rank takes it with its own clock.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from netprobe.core.errors import InputError
from netprobe.plan.schedule.program import NOBODY, CollectiveProgram
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.agent.collective.run import barrier_rounds
from netprobe.probe.agent.messages import CONNECTION, RUN_CODES, ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.fleet.fleet import Member, opened_port
from netprobe.verify.runner import Batch, StoppedRunError

Order = tuple[int, ...]
"""order[rank] = place of the member."""

ASK_S = 10.0
"""For an answer that needs no more than a round trip, on a slow machine."""
CONNECT_S = 15.0
CLOSE_S = 2.0
"""Short: the end after Ctrl-C may wait for it."""
MOST_HELD = 1 << 16
"""Actions of all orders together on one agent: some 8 MB."""
ROWS_BYTES = 1 << 18
"""Of a program in one message; a frame takes four times as much."""
_LIMIT = 1 << 62


class Run(NamedTuple):
    """A schedule, proved and compiled, in an order of the members."""

    schedule: Schedule
    program: CollectiveProgram
    order: Order


class _Ran(NamedTuple):
    """A member's answer: times in ns, why it ended early (a code and a text), and the host that this concerns."""

    times: list[int]
    code: str | None
    reason: str | None
    about: str | None


class WireRunner:
    """Runs each of ``runs`` among ``members``, all of them up. ``close`` must be called."""

    batch_s = 2.0
    """One request to every agent, and its answer, for many repetitions that are shorter."""

    def __init__(
        self,
        members: Sequence[Member],
        runs: Sequence[Run],
        *,
        size_bytes: int,
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        for run in runs:
            if sorted(run.order) != list(range(len(members))) or run.program.ranks != len(members):
                raise ValueError(f"an order of {len(run.order)} ranks for {len(members)} members")
        total = sum(run.program.longest for run in runs)
        if total > MOST_HELD and len(runs) > 2:
            raise InputError(
                f"{len(runs)} orders or plans of {total // len(runs)} actions each: an agent holds {MOST_HELD} in all, "
                f"so about {max(2, MOST_HELD * len(runs) // total)} can be run (the plan and its baselines among them)"
            )
        self.members = list(members)
        self.runs = list(runs)
        self.channels = max(run.program.channels for run in runs)
        self.size_bytes = size_bytes
        self.sent_bytes = 0
        """Payload that the agents say they have sent."""
        self.repetitions = 0
        """Those that ended on all ranks, every one of them proved there."""
        self.ports = ports

    async def open(self) -> None:
        """Load the programs and connect. Raises StoppedRunError with the first host that cannot."""
        tokens = [secrets.token_bytes(16).hex() for _ in self.members]

        async def open_one(place: int) -> int:
            member = self.members[place]
            fields = {"token": tokens[place], "address": member.address, "ports": list(self.ports)}
            return opened_port(await self._ask(place, "collective_open", ASK_S, fields), self.ports)

        ports = await self._all(open_one(place) for place in range(len(self.members)))
        await self._all(self._load(place) for place in range(len(self.members)))
        dial, accept = self._meetings()

        async def connect(place: int) -> None:
            calls = [[p, self.members[p].address, ports[p], tokens[p]] for p in sorted(dial[place])]
            fields = {
                "place": place, "members": len(self.members), "channels": self.channels,
                "source": self.members[place].address, "dial": calls, "accept": sorted(accept[place]),
                "limit_ns": round(CONNECT_S * 1e9),
            }  # fmt: skip
            answer = await self._ask(place, "collective_connect", CONNECT_S + ASK_S, fields)
            for fault in _list(answer, "faults", 64):
                if not (isinstance(fault, list) and len(fault) == 2 and isinstance(fault[0], int)):
                    raise ProtocolError("faults that are not valid")
                raise StoppedRunError(f"no connection with {self._name(fault[0])}: {str(fault[1])[:200]}")

        await self._all(connect(place) for place in range(len(self.members)))

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        """See ``Runner``."""

        async def run(place: int) -> _Ran:
            fields = {"sequence": list(sequence), "limit_ns": round(limit_s * 1e9)}
            answer = await self._ask(place, "collective_run", limit_s + ASK_S, fields)
            times = _list(answer, "durations_ns", len(sequence))
            if any(type(t) is not int or not 0 < t <= (limit_s + ASK_S) * 1e9 for t in times):
                raise ProtocolError("a time that cannot be")
            self.sent_bytes += whole_field(answer, "sent", _LIMIT)
            reason = text_field(answer, "reason")
            if reason is None and len(times) < len(sequence):
                raise ProtocolError(f"{len(times)} times of {len(sequence)} repetitions")
            code = text_field(answer, "code")
            if (reason is None) != (code is None) or (code is not None and code not in RUN_CODES):
                raise ProtocolError(f"a run's code {code!r} for the reason {reason!r}")
            about = None
            if reason is not None and answer.get("peer") is not None:
                about = self._name(whole_field(answer, "peer", len(self.members) - 1))
            return _Ran(times, code, reason, about)

        results: list[_Ran | str] = await asyncio.gather(
            *(self._guarded(run(place), place) for place in range(len(self.members)))
        )
        times = [result.times for result in results if not isinstance(result, str)]
        whole = min(map(len, times), default=0) if len(times) == len(results) else 0
        seconds = tuple(max(own[i] for own in times) / 1e9 for i in range(whole))
        self.repetitions += whole
        return Batch(seconds=seconds, reason=self._why(results))

    async def close(self) -> None:
        """Close the connections of those that are still there."""

        async def one(member: Member) -> None:
            if member.connection is not None and member.connection.lost is None:
                await member.connection.request({"type": "collective_close"}, CLOSE_S)

        await asyncio.gather(*map(one, self.members), return_exceptions=True)

    def _why(self, results: Sequence[_Ran | str]) -> str | None:
        """The reason for all: a host that is lost takes the connections of the others with it, and they say so."""
        lost: list[str] = []
        own: list[str] = []
        ended: list[str] = []
        for place, result in enumerate(results):
            if isinstance(result, str):
                lost.append(result)
            elif result.reason is not None:
                about = "" if result.about is None else f" says of {result.about}"
                text = f"{self._name(place)}{about}: {result.reason}"
                (ended if result.about is not None and result.code == CONNECTION else own).append(text)
        return next(iter([*lost, *own, *ended]), None)

    def _meetings(self) -> tuple[list[set[int]], list[set[int]]]:
        """Whom each member calls, and who calls it: every pair of any order, and those of the barrier."""
        pairs = set()
        links = {id(run.program): run.program.links() for run in self.runs}
        for run in self.runs:
            for low, high in links[id(run.program)]:
                pairs.add((min(run.order[low], run.order[high]), max(run.order[low], run.order[high])))
        count = len(self.members)
        for number in range(barrier_rounds(count)):
            for place in range(count):
                other = (place + (1 << number)) % count
                pairs.add((min(place, other), max(place, other)))
        dial: list[set[int]] = [set() for _ in self.members]
        accept: list[set[int]] = [set() for _ in self.members]
        for low, high in pairs:
            # Each calls about half of its peers.
            caller, called = (low, high) if (low + high) % 2 else (high, low)
            dial[caller].add(called)
            accept[called].add(caller)
        return dial, accept

    async def _load(self, place: int) -> None:
        for number, run in enumerate(self.runs):
            rank = run.order.index(place)
            actions = 0
            head = {
                "program": number, "rank": rank, "ranks": run.program.ranks,
                "sizes": chunk_sizes(run.schedule, self.size_bytes), "owed": _owed(run.schedule, rank),
            }  # fmt: skip
            for rows in _portions(run.program, rank, run.order):
                answer = await self._ask(place, "collective_load", ASK_S, {**head, "rows": rows})
                actions = whole_field(answer, "actions", _LIMIT)
            if actions != run.program.count(rank):
                raise StoppedRunError(f"{self._name(place)}: it holds {actions} actions of its program")

    async def _ask(self, place: int, kind: str, timeout_s: float, fields: dict[str, Any]) -> dict[str, Any]:
        connection = self.members[place].connection
        if connection is None:
            raise AgentLostError("its agent is not up")
        return await connection.request({"type": kind, **fields}, timeout_s)

    async def _guarded(self, work: Awaitable[Any], place: int) -> Any:
        """What ``work`` gives, or the reason why it gave nothing, with the host's name."""
        member = self.members[place]
        try:
            return await work
        except (AgentLostError, TaskFailedError) as error:
            return f"{self._name(place)}: {error}"
        except StoppedRunError as error:
            return f"{self._name(place)}: {error}"
        except ProtocolError as error:
            if member.connection is not None:
                member.connection.lose(f"the agent sent {error}")
            return f"{self._name(place)}: the agent sent {error}"
        except TimeoutError:
            return f"{self._name(place)}: its agent gave no answer in time"

    async def _all(self, works: Iterator[Awaitable[Any]]) -> list[Any]:
        """Every member's result. Raises StoppedRunError with the first reason."""
        results = await asyncio.gather(*(self._guarded(work, place) for place, work in enumerate(works)))
        for result in results:
            if isinstance(result, str):
                raise StoppedRunError(result)
        return results

    def _name(self, place: int) -> str:
        return self.members[place].outcome.host.name if 0 <= place < len(self.members) else "?"


def chunk_sizes(schedule: Schedule, size_bytes: int) -> list[list[int]]:
    """Runs of chunks of one size: how many, and their bytes."""
    runs: list[list[int]] = []
    for size in np.diff(schedule.boundaries(size_bytes)).tolist():
        if runs and runs[-1][1] == size:
            runs[-1][0] += 1
        else:
            runs.append([1, size])
    return runs


def _owed(schedule: Schedule, rank: int) -> list[list[Any]]:
    """What ``rank`` has to deliver: first, last, contributors in hexadecimal."""
    return [
        [first, last, f"{whole:x}"] for who, first, last, whole in schedule.contract.owed() if who == rank
    ]


def _portions(program: CollectiveProgram, rank: int, order: Order) -> Iterator[list[Any]]:
    """A rank's actions as rows for the agent, its peers as members, in portions that fit in a frame."""
    rows: list[Any] = []
    size = 0
    for kind, first, last, peer, channel, reduces, after, _ in program.actions(rank):
        member = NOBODY if peer == NOBODY else order[peer]
        row = [kind, first, last, member, channel, int(reduces), list(after)]
        rows.append(row)
        size += len(json.dumps(row))
        if size > ROWS_BYTES:
            yield rows
            rows, size = [], 0
    yield rows


def _list(message: dict[str, Any], key: str, most: int) -> list[Any]:
    value = message.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise ProtocolError(f"a message without its {key}")
    return value
