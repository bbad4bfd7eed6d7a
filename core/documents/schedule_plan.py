"""The document of a schedule: ``kind: schedule`` of netprobe.plan."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from netprobe.core.documents.document import Record
from netprobe.core.documents.plan import Plan
from netprobe.core.documents.table import Table
from netprobe.core.units import count, seconds_text, size_text

Basis = Literal["capacity", "latency and goodput", "latency"]
Word = Annotated[
    str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$")
]
"""What is shown in tables and drawings: one short line."""


PACKET_BYTES = 1448
"""Payload of a TCP segment in an Ethernet frame: a latency measured with small packets is that of so much, at most."""
MOST_ITEMS = 1 << 16
"""Records of a list: so many are read in a second, and no plan of ours has as many."""
LATENCIES_ALONE = "the map knows latencies alone"
"""Why no time of a buffer is known: one phrase, wherever it is said."""


class ContractPart(Record):
    """Chunks ``chunks[0]`` to ``chunks[1]`` - 1: the sum over ``contributors`` must end on ``receivers``.

    Ranks are runs [first, end): end is not among them.
    """

    chunks: tuple[int, int]
    contributors: list[tuple[int, int]]
    receivers: list[tuple[int, int]]


class ScheduleContract(Record):
    """What the schedule is proved to do."""

    collective: str
    root: int | None = None
    applied: bool = False
    parts: Annotated[list[ContractPart], Field(max_length=MOST_ITEMS)]


class ScheduleTemplate(Record):
    """What happens to a block of ``chunks`` chunks: rows [step, src, dst, first, end, op] in ascending steps.

    ``op`` is 0 copy, 1 reduce, 2 apply. Transfers of a step carry what their senders hold when it begins.
    """

    chunks: int = Field(ge=1)
    transfers: Table
    paths: list[list[str]] | None = None
    """Resources that each transfer passes, where they are not those of its hosts and groups."""


class SchedulePhase(Record):
    """A run of steps of a template with a name."""

    name: Word
    first_step: int = Field(ge=0, lt=1 << 24)


class Prediction(Record):
    """What the simulator says that the schedule takes. Bytes are payload, of all hosts together."""

    size_bytes: int = Field(ge=1, le=1 << 53)
    time_s: float = Field(ge=0)
    """By latency alone, of more than a packet: what messages one after another wait for at least, no time of bytes."""
    low_s: float | None = Field(default=None, ge=0)
    high_s: float | None = Field(default=None, ge=0)
    """Null where a capacity is only known to be at least so much."""
    basis: Basis
    busiest: str | None = None
    """Id of the resource that is busy for the largest share of the time."""
    utilisation: float | None = Field(default=None, ge=0)
    """Of that resource."""
    bytes_on_wire: int = Field(ge=0)
    bytes_across_groups: int | None = Field(default=None, ge=0)
    steps: int = Field(ge=0)

    @property
    def tells_time(self) -> bool:
        """Whether times of so many bytes can be compared at all."""
        return self.basis != "latency" or self.size_bytes <= PACKET_BYTES

    def summary(self) -> str:
        """``100 MB in 2.48 s by capacity``, or that nobody knows."""
        size = size_text(self.size_bytes)
        if not self.tells_time:
            return f"what {size} take is not known: {LATENCIES_ALONE}"
        return f"{size} in {seconds_text(self.time_s)} by {self.basis}"


class TriedCandidate(Record):
    """What was compared with the plan, and what it should take: a prediction, or less where less was enough."""

    name: Word
    """As tables show it."""
    algorithm: Word
    pieces: int = Field(ge=1)
    """Into how many equal blocks it cuts the buffer."""
    channels: int = Field(default=1, ge=1)
    prediction: Prediction | None = None
    time_s: float | None = Field(default=None, ge=0)
    """By the capacities as read, where that was enough."""
    at_least_s: float | None = Field(default=None, ge=0)
    """A lower bound, where that was enough."""


class SizeRange(Record):
    """Buffers of ``first_bytes`` to ``last_bytes``, for which one choice holds."""

    first_bytes: int = Field(ge=1, le=1 << 53)
    last_bytes: int = Field(ge=1, le=1 << 53)
    choice: Word | None = None
    """Null: nobody can tell, or it was not looked at."""
    reason: str
    """``faster``, ``close`` (kept: nothing is surely faster), ``cannot_tell``, or ``left_out`` (not looked at)."""


class SchedulePlan(Plan):
    """``kind: schedule``: who sends what to whom, proved when it is built and when it is loaded.

    One rank runs on each host of ``order``: where a host has several slots, its local ranks reduce among themselves
    first and one of them takes part.
    """

    VERSION: ClassVar[tuple[int, int]] = (1, 3)

    kind: Literal["schedule"] = "schedule"
    schema_: str = Field(default="netprobe.plan/1.3", alias="schema")
    algorithm: Word
    order: list[str]
    """Host names, rank 0 first."""
    slots: Literal["one_rank_a_host"] = "one_rank_a_host"
    left_out: list[str] = Field(default_factory=list)
    groups: list[list[str]] = Field(default_factory=list)
    """The groups of hosts that the algorithm was built for, where it needs any."""
    grouping: Word | None = None
    """How those groups were formed."""
    size_bytes: int | None = Field(default=None, ge=1, le=1 << 53)
    """The buffer it was planned for; it runs for any other too."""
    contract: ScheduleContract
    channels: int = Field(default=1, ge=1)
    templates: Annotated[list[ScheduleTemplate], Field(max_length=MOST_ITEMS)]
    blocks: Table
    """Rows [template, channel, start]: start is the step of the schedule at which step 0 of its template is."""
    weights: Table
    """Rows [how many chunks, weight of each], in the order of the blocks: shares of the buffer in proportion."""
    rates: list[float] | None = None
    """Of the tree of each block, in bytes a second, of forests."""
    phases: list[SchedulePhase] = Field(default_factory=list, max_length=MOST_ITEMS)
    safe_under: list[str] = Field(default_factory=list)
    """Models of buffers under which it is proved to end: eager, window W, issue order."""
    predictions: list[Prediction] = Field(default_factory=list, max_length=MOST_ITEMS)
    advice: str | None = None
    """What the figures say, in a sentence."""
    candidates: list[TriedCandidate] = Field(default_factory=list, max_length=MOST_ITEMS)
    """All that it was chosen among, itself first."""
    ranges: list[SizeRange] = Field(default_factory=list, max_length=MOST_ITEMS)
    """Which choice holds for which size of the buffer."""
    unknown: list[str] = Field(default_factory=list, max_length=MOST_ITEMS)
    """What the choice could not know, a line each."""

    @model_validator(mode="after")
    def _ranks_are_hosts(self) -> SchedulePlan:
        names = {host.name for host in self.hosts}
        if not self.order or len(set(self.order)) != len(self.order):
            raise ValueError("order is empty or lists a host twice")
        if set(self.order) | set(self.left_out) != names or set(self.order) & set(self.left_out):
            raise ValueError("order must list each host once, but for those in left_out")
        if self.blocks.shape[1] != 3 or self.weights.shape[1] != 2:
            raise ValueError("blocks have 3 columns, weights 2")
        if any(t.transfers.size and t.transfers.shape[1] != 6 for t in self.templates):
            raise ValueError("transfers have 6 columns")
        grouped = [name for group in self.groups for name in group]
        if any(not group for group in self.groups):
            raise ValueError("a group is empty")
        if len(set(grouped)) != len(grouped) or not set(grouped) <= set(self.order):
            raise ValueError("groups list a host twice, or one that has no rank")
        return self

    def summary(self) -> str:
        """Ranks, collective, algorithm, and the predicted time where there is one."""
        what = f"{count(len(self.order), 'rank')}, {self.contract.collective} by {self.algorithm}"
        if not self.predictions:
            return what
        return f"{what}, {self.predictions[0].summary()}"
