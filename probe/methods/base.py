"""The Protocol of a method, and what the methods share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from netprobe.core.documents.scan import Measurement
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.fleet import Member


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one visit of a link costs when all is well."""

    seconds: float
    bytes: int
    """Bytes on the wire in both directions together, with the headers of IP and below left out."""
    packets: int = 0
    """In both directions; 0 where the method does not count them."""
    paced: bool = False
    """Whether ``ScanOptions.interval_s`` sets its rate; a flow goes as fast as it can."""


@dataclass(frozen=True, kw_only=True)
class VisitContext:
    """What a method may want to know of the round that a visit is in."""

    round: int
    hosts: int
    """How many hosts the scan has."""
    beside: int
    """How many other links of the round are measured at the same time."""
    patient: bool = True
    """Whether a first answer is waited for as long as any; else only as long as those that came suggest, for the
    link is tried again later."""


class Method(Protocol):
    """Measures links. One object serves one phase of one scan."""

    @property
    def measurement(self) -> Measurement:
        """What the document says of it; ``id`` names its visits."""
        ...

    def cost(self) -> Cost:
        """Of one visit; for ``--dry-run``, budgets of time and rate caps."""
        ...

    @property
    def deadline_s(self) -> float:
        """The longest a visit of healthy agents can take; one that takes longer costs its link."""
        ...

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """Before the first round: why a host (by index) cannot take part; its links get that reason."""
        ...

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:
        """Measure ``src`` -> ``dst``, both up: the fields of one VisitResult or more (one a source port).

        Raises AgentLostError, TaskFailedError, ProtocolError and TimeoutError, of ``src`` alone; its round
        (``visiting.Round``) makes a reason of each, and ends an agent that breaks the protocol or gives no result.
        A reading that failed for another cause is a field ``reason``.
        """
        ...

    async def finish(self, members: Sequence[Member]) -> None:
        """After the last round, also after an interruption: close what ``prepare`` or visits opened."""
        ...


@runtime_checkable
class SubmitsTask(Protocol):
    """A method whose visit can be one task of the source's agent.

    The visits of a round are then requested in a loop, and those that end together are read together: a scan of a
    thousand hosts has a million, and what each costs is what the controller costs.
    """

    @property
    def at_once(self) -> bool:
        """Whether it is so with the options that it has; else its visits are those of ``Method.visit``."""
        ...

    def submit(self, src: Member, dst: Member, context: VisitContext, take: Callable[[Any], None]) -> int:
        """Give the agent of ``src``, which is up, its task, as ``Connection.submit`` does; raises AgentLostError."""
        ...

    def read(
        self, answers: Sequence[tuple[Member, dict[str, Any]]]
    ) -> Sequence[dict[str, Any] | ProtocolError]:
        """The fields of the VisitResult of each answer, or what it breaks; each with the host that was probed."""
        ...


@runtime_checkable
class Warns(Protocol):
    """A method that has something to say of its readings."""

    @property
    def warnings(self) -> Sequence[str]:
        """What a reader should know, once the method is finished; they go into the document."""
        ...
