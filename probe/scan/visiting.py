"""The visits of one round: all begun in a loop, and those that end in one turn of the event loop read together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from netprobe.core.documents.scan import Measurement
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import Method, SubmitsTask, VisitContext
from netprobe.probe.records.visits import VisitResult

VisitFields = Sequence[dict[str, Any]]
"""The fields of the VisitResults of one visit."""


class Visit:
    """One visit that has begun. ``outcome`` is what became of it, once ``ended_s`` is there."""

    __slots__ = ("_round", "behind", "dst", "ended_s", "number", "outcome", "src", "started_s", "task")

    def __init__(self, round_: Round, src: Member, dst: Member, started_s: float) -> None:
        self._round = round_
        self.src = src
        self.dst = dst
        self.started_s = started_s
        self.ended_s = 0.0
        self.outcome: dict[str, Any] | VisitFields | BaseException | None = None
        self.number: int | None = None
        self.task: asyncio.Task[VisitFields] | None = None
        self.behind = False

    def take(self, outcome: dict[str, Any] | VisitFields | BaseException) -> None:
        """Note its outcome; called once."""
        self.outcome = outcome
        self._round.ended(self)

    def take_task(self, task: asyncio.Task[VisitFields]) -> None:
        """Its coroutine has ended: by itself, or because its round was given up, which asks for nothing more."""
        if self not in self._round.pending:
            return
        if task.cancelled():
            self.take(TaskFailedError("it was given up"))
            return
        error = task.exception()
        self.take(task.result() if error is None else error)


class Round:
    """The visits of one round. ``deliver`` gets those that ended, in that order; seconds of the scan are
    those of ``clock`` since ``zero_s``."""

    def __init__(
        self,
        method: Method,
        measurement: Measurement,
        context: VisitContext,
        *,
        clock: Callable[[], float],
        zero_s: float,
        deliver: Callable[[Sequence[VisitResult]], None],
    ) -> None:
        self.pending: set[Visit] = set()
        self._method = method
        self._measurement = measurement
        self._submits: SubmitsTask | None = (
            method if isinstance(method, SubmitsTask) and method.at_once else None
        )
        self._context = context
        self._clock = clock
        self._zero_s = zero_s
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._ended: list[Visit] = []
        self._timer: asyncio.TimerHandle | None = None
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done when every visit has been delivered; with what went wrong where that was no fault of an agent."""

    def begin(self, links: Sequence[tuple[Member, Member, str | None]]) -> None:
        """Visit ``src`` -> ``dst``, for each; one with a reason why not is that reason."""
        for src, dst, why_not in links:
            visit = Visit(self, src, dst, self._clock())
            self.pending.add(visit)
            if why_not is not None:
                visit.take([{"reason": why_not, "tried": False}])
            elif self._submits is None:
                visit.task = asyncio.create_task(_coroutine(self._method, src, dst, self._context))
                visit.task.add_done_callback(visit.take_task)
            else:
                try:
                    visit.number = self._submits.submit(src, dst, self._context, visit.take)
                except AgentLostError as error:
                    visit.take(error)
        if self._submits is not None:
            # One timer a round: a visit's own would cost as much as its message.
            self._timer = self._loop.call_later(self._method.deadline_s, self._expire)
        if not links:
            self.over.set_result(None)

    def ended(self, visit: Visit) -> None:
        """Note the end of a visit; those of this turn of the event loop are delivered at its end."""
        visit.ended_s = self._clock()
        if not self._ended:
            self._loop.call_soon(self.flush)
        self._ended.append(visit)

    def flush(self) -> None:
        """Deliver the visits that have ended."""
        ended, self._ended = self._ended, []
        # What is not the fault of an agent ends the round, and costs no other visit its readings.
        faults = [visit.outcome for visit in ended if _is_fault(visit.outcome)]
        try:
            if good := [visit for visit in ended if not _is_fault(visit.outcome)]:
                self._deliver(self._results(good))
        except Exception as error:
            faults.append(error)
        if faults and not self.over.done():
            self.over.set_exception(faults[0])  # type: ignore[arg-type]
        self.pending.difference_update(ended)
        if not self.pending:
            self._stop_timer()
            if not self.over.done():
                self.over.set_result(None)

    async def cancel(self) -> None:
        """Deliver the visits that have ended, and cancel the others."""
        while self._ended:
            self.flush()
        self._stop_timer()
        tasks = []
        for visit in self.pending:
            if visit.task is not None:
                visit.task.cancel()
                tasks.append(visit.task)
            self._cancel_task(visit)
        self.pending.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self.over.done():
            self.over.cancel()

    def _expire(self) -> None:
        for visit in self.pending.difference(self._ended):
            if visit.number is not None:
                self._cancel_task(visit)
                visit.take(TimeoutError())

    def _cancel_task(self, visit: Visit) -> None:
        if visit.number is not None and visit.src.connection is not None:
            visit.src.connection.cancel(visit.number)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _results(self, ended: Sequence[Visit]) -> list[VisitResult]:
        answered = [visit for visit in ended if type(visit.outcome) is dict]
        if self._submits is not None and answered:
            found = self._submits.read([(visit.dst, visit.outcome) for visit in answered])  # type: ignore[misc]
            for visit, fields in zip(answered, found, strict=True):
                visit.outcome = fields if isinstance(fields, ProtocolError) else [fields]
        round_, beside, zero_s = self._context.round, self._context.beside, self._zero_s
        id_, method = self._measurement.id, self._measurement.method
        return [
            VisitResult(
                src=visit.src.index,
                dst=visit.dst.index,
                round=round_,
                started_s=visit.started_s - zero_s,
                duration_s=visit.ended_s - visit.started_s,
                measurement=id_,
                method=method,
                beside=beside,
                **fields,
            )
            for visit in ended
            for fields in self._fields_of(visit)
        ]

    def _fields_of(self, visit: Visit) -> VisitFields:
        """The readings of a visit, or the reason for none. An agent without a valid result is dropped."""
        outcome = visit.outcome
        if not isinstance(outcome, BaseException):
            return outcome  # type: ignore[return-value]
        if isinstance(outcome, ProtocolError):
            reason = f"the agent sent {outcome}"
        elif isinstance(outcome, TimeoutError):
            reason = f"the agent gave no result within {self._method.deadline_s:.1f} s"
        else:
            tried = not isinstance(outcome, AgentLostError)
            return [{"reason": f"{visit.src.outcome.host.name}: {outcome}", "tried": tried}]
        if visit.src.connection is not None:
            visit.src.connection.lose(reason)
        return [{"reason": f"{visit.src.outcome.host.name}: {reason}", "tried": False}]


def _is_fault(outcome: object) -> bool:
    """Whether a visit ended by an error that is not its agent's."""
    of_agents = (AgentLostError, TaskFailedError, ProtocolError, TimeoutError)
    return isinstance(outcome, BaseException) and not isinstance(outcome, of_agents)


async def _coroutine(method: Method, src: Member, dst: Member, context: VisitContext) -> VisitFields:
    return await method.visit(src, dst, context)
