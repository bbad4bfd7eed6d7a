"""The Verify document: rank orders run against each other on the wire, and how long each repetition took."""

from __future__ import annotations

import statistics
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from netprobe.core.documents.document import Document, Record
from netprobe.core.documents.notebook import document_html, table_html
from netprobe.core.documents.scan import DocumentStatus, ScannedHost
from netprobe.core.units import count, seconds_text

Outcome = Literal["faster", "slower", "same", "cannot_tell"]


class VerifiedOrder(Record):
    """One order. The first of a document is the proposed one."""

    name: str
    """``proposed``, ``given``, ``random 1``, ``percentile 30``, or the name of a file."""
    order: list[str]
    """Host names, rank 0 first."""
    predicted_s: float | None = Field(default=None, ge=0)
    """Its cost by the plan's model, on the map; its time where capacities predict; null without either."""
    predicted_low_s: float | None = Field(default=None, ge=0)
    predicted_high_s: float | None = Field(default=None, ge=0)
    """The time at both ends of the measured capacities; null for costs, and for orders of a survey. The high end alone
    is null where a capacity may be 0, as measured."""
    kind: str | None = None
    """Of its plan, where the orders of a document are of several plans: ``order`` or ``schedule``."""
    algorithm: str | None = None
    """What ran in it, where that is not the same for all."""
    percentile: float | None = Field(default=None, ge=0, le=100)
    """Where that cost lies between the lowest and the highest known cost of an order."""


class VerifiedRepetition(Record):
    """One run of the collective, in the sequence in which they were made."""

    order: int = Field(ge=0)
    """Index into ``orders``."""
    seconds: float = Field(gt=0)
    """The longest of any rank's, from the barrier to the end of its last action."""
    part: Literal["warm_up", "comparison", "orders"]
    """Those of a warm-up count for nothing."""


class Comparison(Record):
    """Time of the baseline over that of the proposed order: above 1 the proposed one is faster."""

    against: str
    ratio: float | None = Field(default=None, gt=0)
    low: float | None = Field(default=None, gt=0)
    high: float | None = Field(default=None, gt=0)
    """The interval of 95 %."""
    pairs: int = Field(ge=0)
    predicted_ratio: float | None = Field(default=None, gt=0)
    verdict: Outcome


class RankCorrelation(Record):
    """Between predicted cost and median time, over the orders at percentiles."""

    tau_b: float | None = Field(default=None, ge=-1, le=1)
    ceiling: float | None = Field(default=None, ge=0, le=1)
    """The most that tau-b could be, given what is equal."""
    spearman: float | None = Field(default=None, ge=-1.000001, le=1.000001)
    orders: int = Field(ge=0)


class Verify(Document):
    """``netprobe.verify``: child of a plan, and of a map where one was given."""

    KIND: ClassVar[str] = "verify"
    VERSION: ClassVar[tuple[int, int]] = (1, 2)

    schema_: str = Field(default="netprobe.verify/1.2", alias="schema")
    status: DocumentStatus
    reason: str | None = None
    hosts: list[ScannedHost]
    algorithm: str
    """The plan's."""
    ran: str
    """What was run: the name of a program of ``docs/planning.md``."""
    method: str = "tcp"
    """``tcp``: netprobe's agents; else the library that ran it."""
    size_bytes: int = Field(ge=1)
    """Of the buffer on each rank."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    orders: list[VerifiedOrder]
    repetitions: list[VerifiedRepetition]
    sent_bytes: int | None = Field(default=None, ge=0)
    """Payload of all ranks together in one repetition, as counted by the senders."""
    proved: int = Field(default=0, ge=0)
    """Repetitions in which every rank found each contribution in each of its chunks exactly once."""
    comparison: Comparison
    correlation: RankCorrelation | None = None
    warnings: list[str] = Field(default_factory=list)
    duration_s: float = Field(ge=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Verify:
        names = [host.name for host in self.hosts]
        if len(set(names)) != len(names):
            raise ValueError("two hosts have the same name")
        for one in self.orders:
            if len(set(one.order)) != len(one.order) or not set(one.order) <= set(names):
                raise ValueError(f"the order {one.name!r} is not one of these hosts")
            if set(one.order) != set(self.orders[0].order):
                raise ValueError(f"the order {one.name!r} has other hosts than the first")
        if any(one.order >= len(self.orders) for one in self.repetitions):
            raise ValueError("a repetition is of an order that is not listed")
        low, high = self.comparison.low, self.comparison.high
        if low is not None and high is not None and low > high:
            raise ValueError("the interval ends before it begins")
        return self

    def summary(self) -> str:
        """What ran, how often, and the ratio to what it was compared with."""
        found = self.comparison
        ratio = "no ratio" if found.ratio is None else f"{found.ratio:.2f}x as fast as {found.against}"
        span = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
        return f"{self.ran}, {count(len(self.repetitions), 'run')}, {ratio}{span}, {self.status}"

    def _repr_html_(self) -> str:
        rows = []
        for at, one in enumerate(self.orders):
            took = sorted(
                run.seconds for run in self.repetitions if run.order == at and run.part != "warm_up"
            )
            median = seconds_text(statistics.median(took)) if took else "-"
            rows.append([one.name, str(len(took)), median])
        return document_html(f"Verify: {self.summary()}", table_html(("order", "runs", "median"), rows))
