"""The Scan document: what was measured between the hosts, visit by visit and cell by cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from netprobe.core.documents.document import Document, Record
from netprobe.core.documents.frames import links_dataset, links_frame
from netprobe.core.documents.matrix import FloatMatrix, Matrix
from netprobe.core.documents.notebook import document_html, heat_map_svg, table_html
from netprobe.core.documents.visits import GoodputReading, PathReading, Visit, Visits, VisitTable
from netprobe.core.hosts import Host, natural_order
from netprobe.core.units import count, seconds_text

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = [
    "Agent",
    "AuditReading",
    "GoodputReading",
    "HostAudit",
    "Measurement",
    "PathReading",
    "RttStatistics",
    "SamplesFile",
    "Scan",
    "ScannedHost",
    "Stamps",
    "Visit",
    "VisitTable",
]

HostStatus = Literal["ok", "partial", "unreachable", "failed"]
DocumentStatus = Literal["ok", "partial", "failed"]
Stamps = Literal["kernel", "kernel_rx", "user"]
"""The levels this version writes; a later one may know others, so documents are read with any."""


class Agent(Record):
    """What the agent said of its host."""

    version: str
    python: str
    hostname: str
    kernel: str
    addresses: list[str] = Field(default_factory=list)
    boot_id: str | None = None
    """Of the running kernel: another one is another boot, and maybe another place."""


class AuditReading(Record):
    """How a machine was off at one moment."""

    load: float | None = None
    """Processes that run or want to, mean of the last minute."""
    delay_p50_s: float
    """By how much a sleep of a millisecond ends late: median of 50."""
    delay_p99_s: float


class HostAudit(Record):
    """What may make a host's readings wrong. Ratios are of CPU time between the two ends of the scan."""

    start: AuditReading
    end: AuditReading | None = None
    steal_ratio: float | None = None
    """Taken away by the hypervisor."""
    busy_ratio: float | None = None
    cores: int
    clock_source: str | None = None
    congestion_control: str | None = None
    raw_icmp: bool = False
    """Whether the agent may open a raw socket (CAP_NET_RAW)."""
    interface: str | None = None
    """The one that has the probed address, and its properties."""
    mtu_bytes: int | None = None
    driver: str | None = None
    nic_bytes_per_s: float | None = None
    """What the driver says of the link's speed."""
    programs: dict[str, str | None] = Field(default_factory=dict)
    """First line of what ``--version`` prints; null where a program is not installed."""


class ScannedHost(Host):
    """A host as the scan found it. ``reason`` says why its status is not ``ok``."""

    status: HostStatus = "ok"
    reason: str | None = None
    agent: Agent | None = None
    audit: HostAudit | None = None


class Measurement(Record):
    """One thing that was measured for every link, and how."""

    id: str
    """Its name in ``visits`` and in a map's layers (``rtt``). The first measurement is the primary one."""
    key: str
    """The key of the document that holds its matrices (``rtt_s``)."""
    method: str
    unit: str
    statistic: str
    """The statistic that represents the link (``p10``)."""
    parameters: dict[str, Any] = Field(default_factory=dict)


class RttStatistics(Record):
    """Round-trip times in seconds, each a matrix [src][dst] as probed from ``src``."""

    min: Matrix
    p10: Matrix
    p50: Matrix
    p90: Matrix
    p99: Matrix


class SamplesFile(Record):
    """The raw samples, in an .npz in the scan's folder (docs/protocol.md lists its arrays)."""

    npz: str
    sha256: str


class Scan(Document):
    """``netprobe.scan``: hosts, matrices [src][dst] in the order of ``hosts``, and every visit."""

    KIND: ClassVar[str] = "scan"

    schema_: str = Field(default="netprobe.scan/1.0", alias="schema")
    status: DocumentStatus
    reason: str | None = None
    hosts: list[ScannedHost]
    measurements: list[Measurement]
    rtt_s: RttStatistics
    loss_ratio: Matrix
    """1 - received / sent of the link's probes; null where nothing was sent."""
    ipdv_s: Matrix
    """Jitter: mean absolute difference of the delays of successive probes (RFC 3393)."""
    port_spread_s: Matrix | None = None
    """Largest less smallest p10 among the source ports of a link; null without several ports."""
    goodput_bytes_per_s: dict[str, Matrix] = Field(default_factory=dict)
    """A matrix for each goodput measurement, by its id: median of the receiver's figures of the link's visits."""
    hops: Matrix | None = None
    path_mtu_bytes: Matrix | None = None
    warnings: list[str] = Field(default_factory=list)
    """What a reader of the readings should know."""
    controller: HostAudit | None = None
    """The machine that steered the scan."""
    visits: Visits
    samples: SamplesFile | None = None
    rounds: int = Field(ge=0)
    duration_s: float = Field(ge=0)

    @field_validator("loss_ratio")
    @classmethod
    def _loss_is_a_ratio(cls, value: Any) -> Any:
        if (value > 1).any():
            raise ValueError("loss_ratio has a cell above 1")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Scan:
        check_hosts_and_matrices(
            self.hosts,
            {f"rtt_s.{k}": getattr(self.rtt_s, k) for k in ("min", "p10", "p50", "p90", "p99")}
            | {"loss_ratio": self.loss_ratio, "ipdv_s": self.ipdv_s}
            | {f"goodput_bytes_per_s.{k}": m for k, m in self.goodput_bytes_per_s.items()}
            | {
                key: value
                for key in ("port_spread_s", "hops", "path_mtu_bytes")
                if (value := getattr(self, key)) is not None
            },
        )
        ids = [measurement.id for measurement in self.measurements]
        if len(set(ids)) != len(ids):
            raise ValueError("two measurements have the same id")
        check_visits(self.visits, {host.name for host in self.hosts}, set(ids))
        return self

    def summary(self) -> str:
        """Hosts, links with a reading, what was measured, whether all of it."""
        size = len(self.hosts)
        known = ~np.isnan(np.asarray(self.rtt_s.p10))
        np.fill_diagonal(known, False)
        links = f"{int(known.sum())} of {count(size * (size - 1), 'link')}"
        return (
            f"{count(size, 'host')}, {links}, {', '.join(one.id for one in self.measurements)}, {self.status}"
        )

    def columns(self) -> dict[str, FloatMatrix]:
        """(N, N) each, by the name it has in `to_pandas`: ``rtt_p10_s``, ``loss_ratio``, ``goodput_bytes_per_s`` ..."""
        found = {f"rtt_{key}_s": getattr(self.rtt_s, key) for key in ("min", "p10", "p50", "p90", "p99")}
        found |= {"loss_ratio": self.loss_ratio, "ipdv_s": self.ipdv_s}
        for key, matrix in self.goodput_bytes_per_s.items():
            found["goodput_bytes_per_s" + key.removeprefix("goodput")] = matrix
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each directed link, with its `columns`, NaN where nothing was read. Raises PlatformError without
        pandas."""
        return links_frame([host.name for host in self.hosts], self.columns(), labels={})

    def to_xarray(self) -> xarray.Dataset:
        """The `columns` on the dimensions ``src`` and ``dst``. Raises PlatformError without xarray."""
        about = {"schema": self.schema_, "created_at": self.created_at, "status": self.status}
        return links_dataset([host.name for host in self.hosts], self.columns(), labels={}, attributes=about)

    def _repr_html_(self) -> str:
        order = natural_order(self.hosts)
        names = [self.hosts[at].name for at in order]
        matrix = np.asarray(self.rtt_s.p10)[np.ix_(order, order)]
        rows = [[host.name, host.status, host.reason or ""] for host in self.hosts if host.status != "ok"]
        return document_html(
            f"Scan: {self.summary()}",
            heat_map_svg(names, matrix, unit_text=seconds_text, what="RTT"),
            table_html(("host", "status", "why"), rows) if rows else "",
        )


def check_visits(visits: VisitTable, names: set[str], ids: set[str]) -> None:
    """Every visit is between two of the hosts, of a measurement, and counts add up; raises ValueError."""
    columns = visits.columns
    strange = (visits.distinct("src") | visits.distinct("dst")) - names
    if strange or (columns["src"] == columns["dst"]).any():
        place = next(
            i for i, visit in enumerate(visits) if {visit.src, visit.dst} & strange or visit.src == visit.dst
        )
        visit = visits[place]
        raise ValueError(f"visit {visit.src} -> {visit.dst} is not between two of its hosts")
    if unknown := visits.distinct("measurement") - ids:
        raise ValueError(f"a visit is of no measurement: {min(unknown)!r}")
    too_many = (columns["received"] > columns["sent"]) | (columns["samples"] > columns["received"])
    if too_many.any():
        visit = visits[int(np.argmax(too_many))]
        raise ValueError(f"visit {visit.src} -> {visit.dst} received more than was sent")


def check_hosts_and_matrices(hosts: list[Any], matrices: dict[str, Any]) -> None:
    """Names are unique and every matrix has one row per host; raises ValueError otherwise."""
    names = [host.name for host in hosts]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"host {twice!r} is in hosts twice")
    for key, matrix in matrices.items():
        if matrix.shape != (len(names), len(names)):
            raise ValueError(f"{key} has shape {matrix.shape} for {len(names)} hosts")
