"""The Map document: denoised, complete distances, groups, and the verdict on locality."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from netprobe.core.document import Document, Record
from netprobe.core.matrix import Matrix
from netprobe.core.scan import ScannedHost, check_hosts_and_matrices

Locality = Literal["found", "none", "cannot_tell"]


class HeldOut(Record):
    """Error of the fit on links it did not see; the document's own fit uses every link."""

    links: int = Field(ge=0)
    median_relative_error: float | None = None


class RttLayer(Record):
    """Round-trip times, denoised and complete. A host without any reading has null cells."""

    distance_s: Matrix
    coordinates: list[list[float]]
    """For drawing: one row a host, in seconds to the power 1/alpha; empty for an unplaced host."""
    heights_s: list[float | None]
    stress: float | None = None
    held_out: HeldOut | None = None
    interval_factor: Matrix | None = None
    """f such that nine of ten readings of a link lie in distance / f to distance * f. Optional: written
    where links of placed hosts are missing."""
    method: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class Layers(Record):
    """One layer a measurement, by its id. Later versions add layers in units of their own."""

    rtt: RttLayer


class Group(Record):
    """Hosts found near each other."""

    id: str
    hosts: list[str]
    leader: str
    """The host with the least summed distance to its group."""
    radius_s: float | None = None
    """Largest distance of a member from the leader."""


class Grouping(Record):
    """How the groups were formed."""

    method: str
    k: int = Field(ge=0)
    evidence: dict[str, Any] = Field(default_factory=dict)


class SlowHost(Record):
    """A host that is slower towards the others than its place explains."""

    host: str
    ratio: float
    """Median over its links of measured over expected."""
    excess_s: float
    """The same as a difference."""
    slower: int
    links: int
    """``slower`` of ``links`` are more than a tenth above what is expected."""
    text: str


class SlowLink(Record):
    """A link slower than the groups and the hosts at its ends explain."""

    hosts: list[str]
    ratio: float


class AsymmetricLink(Record):
    """``src`` to ``dst`` measured ``ratio`` times what ``dst`` to ``src`` did."""

    src: str
    dst: str
    ratio: float


class Outliers(Record):
    """What stands out, largest effect first; lists of links end after 100, the counts are of all."""

    hosts: list[SlowHost] = Field(default_factory=list)
    links: list[SlowLink] = Field(default_factory=list)
    links_found: int = 0
    asymmetric: list[AsymmetricLink] = Field(default_factory=list)
    asymmetric_found: int = 0


class Verdict(Record):
    """Whether location matters at all."""

    locality: Locality
    contrast: float | None = None
    """Median distance across groups over the median inside them."""
    p_value: float | None = Field(default=None, ge=0, le=1)
    text: str


class Map(Document):
    """``netprobe.map``: child of a scan."""

    KIND: ClassVar[str] = "map"

    schema_: str = Field(default="netprobe.map/1.0", alias="schema")
    hosts: list[ScannedHost]
    unplaced: list[str] = Field(default_factory=list)
    """Hosts without a reading; they stand in no group."""
    layers: Layers
    grouping: Grouping
    groups: list[Group]
    verdict: Verdict
    outliers: Outliers | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Map:
        matrices = {"layers.rtt.distance_s": self.layers.rtt.distance_s}
        if self.layers.rtt.interval_factor is not None:
            matrices["layers.rtt.interval_factor"] = self.layers.rtt.interval_factor
        check_hosts_and_matrices(self.hosts, matrices)
        names = {host.name for host in self.hosts}
        grouped = [name for group in self.groups for name in group.hosts]
        if len(set(grouped)) != len(grouped):
            raise ValueError("a host stands in two groups")
        if set(grouped) | set(self.unplaced) != names or set(grouped) & set(self.unplaced):
            raise ValueError("each host must stand in one group or in unplaced")
        if len({group.id for group in self.groups}) != len(self.groups):
            raise ValueError("two groups have the same id")
        if any(not group.hosts or group.leader not in group.hosts for group in self.groups):
            raise ValueError("a group is empty or its leader is none of its hosts")
        placed = [i for i, host in enumerate(self.hosts) if host.name not in self.unplaced]
        if np.isnan(self.layers.rtt.distance_s[np.ix_(placed, placed)]).any():
            raise ValueError("layers.rtt.distance_s has a missing cell between placed hosts")
        distance = self.layers.rtt.distance_s
        if not np.allclose(distance, distance.T, rtol=1e-6, atol=0.0, equal_nan=True):
            raise ValueError("layers.rtt.distance_s is not symmetric")
        return self
