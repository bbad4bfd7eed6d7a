"""The Plan documents: a union on ``kind``. Only plan/ loads them, since loading verifies."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from netprobe.core.document import Document
from netprobe.core.hosts import Host

Objective = Literal["sum", "bottleneck"]


class Plan(Document):
    """What every kind of plan has. ``requires`` names the features a reader must know to obey it."""

    KIND: ClassVar[str] = "plan"

    schema_: str = Field(default="netprobe.plan/1.0", alias="schema")
    kind: str
    requires: list[str] = Field(default_factory=list)
    hosts: list[Host]

    @model_validator(mode="after")
    def _hosts_are_distinct(self) -> Plan:
        names = [host.name for host in self.hosts]
        if not names or len(set(names)) != len(names):
            raise ValueError("hosts must list at least one host, and each once")
        return self


class OrderPlan(Plan):
    """``kind: order``: the hosts in rank order for one collective algorithm."""

    kind: Literal["order"] = "order"
    collective: Literal["all_reduce"] = "all_reduce"
    algorithm: Literal["ring"] = "ring"
    objective: Objective = "sum"
    size_bytes: int | None = Field(default=None, ge=1)
    """Where the map knows goodput only: each hop costs the time in which it carries so many bytes."""
    order: list[str]
    """Host names, rank 0 first."""
    kept_given: str | None = None
    """Why the given order was kept without a search; null when an order was sought."""
    cost_s: float = Field(ge=0)
    """Cost of ``order``: the sum (or the largest) of the one-way times round the ring, each half an RTT, or
    that of a message of ``size_bytes``."""
    cost_given_s: float = Field(ge=0)
    """The same cost of the order in which the hosts were given."""
    lower_bound_s: float | None = Field(default=None, ge=0)
    crossings: int | None = Field(default=None, ge=0)
    """Ring hops between groups; a ring through g > 1 groups needs at least g."""
    crossings_given: int | None = Field(default=None, ge=0)
    left_out: list[str] = Field(default_factory=list)
    """Hosts that had no reading and are not in ``order``."""

    @model_validator(mode="after")
    def _order_is_a_permutation(self) -> OrderPlan:
        names = {host.name for host in self.hosts}
        if len(set(self.order)) != len(self.order):
            raise ValueError("order lists a host twice")
        if set(self.order) | set(self.left_out) != names or set(self.order) & set(self.left_out):
            raise ValueError("order must list each host once, but for those in left_out")
        return self
