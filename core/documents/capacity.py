"""The Capacity document: what each host and each group's uplink can carry, measured with several flows at once."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from netprobe.core.documents.document import Document, Record
from netprobe.core.documents.map import Group
from netprobe.core.documents.scan import DocumentStatus, ScannedHost
from netprobe.core.units import count

MOST_BYTES_PER_S = 1e14
"""100 TB/s: no card and no uplink carries more."""
LimitedBy = Literal["itself", "one_of", "hosts", "cpu"]
"""What limited the flows: the resource, one of several that cannot be distinguished, the hosts at its ends
or, of an outer group, the uplinks inside it (so that it carries at least this much), or their processors."""


class Resource(Record):
    """Something that flows share, in one direction.

    ``bytes_per_s`` is payload (TCP goodput). It is a capacity where ``limited_by`` is ``itself`` or
    ``one_of``, and the least that it can carry otherwise: ``high_bytes_per_s`` is null then.
    """

    id: str
    """``tx:HOST``, ``rx:HOST``, ``up:GROUP``, ``down:GROUP``; of an outer group ``up:netprobe-LEVEL-NUMBER``, the name
    that exported topologies give it, with its hosts in ``shared_by``."""
    kind: str
    """``host_tx``, ``host_rx``, ``group_up``, ``group_down``; later versions may have more."""
    bytes_per_s: float | None = Field(default=None, ge=0, le=MOST_BYTES_PER_S)
    low_bytes_per_s: float | None = Field(default=None, ge=0, le=MOST_BYTES_PER_S)
    high_bytes_per_s: float | None = Field(default=None, ge=0, le=MOST_BYTES_PER_S)
    """The interval is of 95 % over the slices of the tests."""
    limited_by: LimitedBy | None = None
    one_of: list[str] = Field(default_factory=list)
    """Resources that may be the limit just as well."""
    shared_by: list[str]
    """The hosts whose flows pass it."""
    tests: list[int] = Field(default_factory=list)
    """Indices of the tests it was read from."""
    reason: str | None = None
    """Why there is no reading."""


class Oversubscription(Record):
    """What a group's hosts can send together, over what its uplink takes. 1 and less is not oversubscribed."""

    group: str
    ratio: float | None = Field(default=None, ge=0)
    low: float | None = Field(default=None, ge=0)
    high: float | None = Field(default=None, ge=0)
    text: str


class TestedFlow(Record):
    """One flow of a test."""

    src: str
    dst: str
    streams: int = Field(ge=1)
    bytes_per_s: float | None = Field(default=None, ge=0)
    flags: list[str] = Field(default_factory=list)
    reason: str | None = None


class CapacityTest(Record):
    """Flows that ran at once. ``kind`` is ``hosts``, ``up`` or ``down``, ``group`` whose uplink was meant: a group or
    an outer one."""

    kind: str
    group: str | None = None
    started_s: float = Field(ge=0)
    duration_s: float = Field(gt=0)
    flows: list[TestedFlow]


class Capacity(Document):
    """``netprobe.capacity``: child of a scan and its map."""

    KIND: ClassVar[str] = "capacity"

    schema_: str = Field(default="netprobe.capacity/1.0", alias="schema")
    status: DocumentStatus
    reason: str | None = None
    hosts: list[ScannedHost]
    groups: list[Group]
    """The map's."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    resources: list[Resource]
    oversubscription: list[Oversubscription]
    warnings: list[str] = Field(default_factory=list)
    tests: list[CapacityTest]
    duration_s: float = Field(ge=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Capacity:
        names = {host.name for host in self.hosts}
        if len(names) != len(self.hosts):
            raise ValueError("two hosts have the same name")
        grouped = [name for group in self.groups for name in group.hosts]
        if not set(grouped) <= names:
            raise ValueError("a group has a host that is not listed")
        if len(set(grouped)) != len(grouped) or len({group.id for group in self.groups}) != len(self.groups):
            raise ValueError("two groups share a host or an id")
        ids = [resource.id for resource in self.resources]
        if len(set(ids)) != len(ids):
            raise ValueError("two resources have the same id")
        for resource in self.resources:
            if not set(resource.shared_by) <= names:
                raise ValueError(f"resource {resource.id} is shared by hosts that are not listed")
            if any(not 0 <= test < len(self.tests) for test in resource.tests):
                raise ValueError(f"resource {resource.id} was read from a test that is not listed")
            if not set(resource.one_of) <= set(ids):
                raise ValueError(f"resource {resource.id} names another that is not listed")
            low, high = resource.low_bytes_per_s, resource.high_bytes_per_s
            if low is not None and high is not None and low > high:
                raise ValueError(f"resource {resource.id} has an interval that ends before it begins")
        if not {g for one in self.oversubscription for g in [one.group]} <= {g.id for g in self.groups}:
            raise ValueError("an oversubscription is of a group that is not listed")
        for test in self.tests:
            for flow in test.flows:
                if flow.src not in names or flow.dst not in names or flow.src == flow.dst:
                    raise ValueError(f"flow {flow.src} -> {flow.dst} is not between two of its hosts")
        return self

    def summary(self) -> str:
        """Hosts, groups, resources with a reading, whether all of them."""
        known = sum(one.bytes_per_s is not None for one in self.resources)
        resources = f"{known} of {count(len(self.resources), 'resource')}"
        return f"{count(len(self.hosts), 'host')}, {count(len(self.groups), 'group')}, {resources}, {self.status}"
