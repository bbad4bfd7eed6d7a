"""The document of a DS-Sync pattern: ``kind: ds_sync`` of netprobe.plan."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from netprobe.core.documents.document import Record
from netprobe.core.documents.plan import Plan


class AveragingIteration(Record):
    """Groups of hosts whose parameters are averaged in one iteration, and the leaders of the racks that send one."""

    groups: list[list[str]]
    leaders: list[str]


class DsSyncPlan(Plan):
    """``kind: ds_sync``: iteration t of training averages as ``pattern[t % pattern_length]`` says."""

    VERSION: ClassVar[tuple[int, int]] = (1, 3)

    kind: Literal["ds_sync"] = "ds_sync"
    schema_: str = Field(default="netprobe.plan/1.3", alias="schema")
    racks: list[list[str]]
    """The map's groups."""
    left_out: list[str] = Field(default_factory=list)
    contended_groups: list[str] = Field(default_factory=list)
    """Ids of groups whose uplink is contended."""
    contended_hosts: list[str] = Field(default_factory=list)
    contended_share: float | None = Field(default=None, gt=0, lt=1)
    """A resource is contended below this share of the median of its kind; null where contention was given, or none."""
    pattern: list[AveragingIteration]
    pattern_length: int = Field(ge=1)
    adjust_every_iterations: int = Field(default=100, ge=1)
    rho: float = Field(ge=0, lt=1)
    """By so much differences between hosts shrink at least in a period (operator norm)."""
    rho_per_iteration: float = Field(ge=0, lt=1)
    eigenvalue: float = Field(ge=0, lt=1)
    """The paper's rho: the largest eigenvalue of a period on what differs from the mean."""
    iterations_to_a_thousandth: int = Field(ge=1)
    size_bytes: int | None = Field(default=None, ge=1)
    predicted_s: float | None = Field(default=None, ge=0)
    """Seconds of an iteration's averages, mean over a period; null where no rates are known."""
    predicted_low_s: float | None = Field(default=None, ge=0)
    predicted_high_s: float | None = Field(default=None, ge=0)
    """At the upper and the lower ends of what was measured; both null: no ends apart. Null the latter alone: some rate
    may be 0."""
    known_from_below: list[str] = Field(default_factory=list)
    """Resources (``up:GROUP``, ``tx:HOST``) that carry at least what was measured, maybe more: whether they are
    contended cannot be told, and none is called so for that."""
    all_reduce_s: float | None = Field(default=None, ge=0)
    hierarchical_s: float | None = Field(default=None, ge=0)
    advice: str | None = None

    @model_validator(mode="after")
    def _hosts_are_in_racks(self) -> DsSyncPlan:
        names = {host.name for host in self.hosts}
        racked = [name for rack in self.racks for name in rack]
        if len(set(racked)) != len(racked) or set(racked) | set(self.left_out) != names:
            raise ValueError("racks and left_out must list each host once")
        if set(racked) & set(self.left_out) or not racked or any(not rack for rack in self.racks):
            raise ValueError("a host is left out and in a rack, or a rack is empty")
        if len(self.pattern) != self.pattern_length:
            raise ValueError(
                f"pattern has {len(self.pattern)} iterations, and pattern_length is {self.pattern_length}"
            )
        low, mid, high = self.predicted_low_s, self.predicted_s, self.predicted_high_s
        if (low is not None or high is not None) and (
            mid is None or low is None or low > mid or (high is not None and high < mid)
        ):
            raise ValueError(
                f"predicted_s {mid} is not within predicted_low_s {low} to predicted_high_s {high}"
            )
        if not set(self.contended_hosts) <= set(racked):
            raise ValueError("a contended host is in no rack")
        return self
