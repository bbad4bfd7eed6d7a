"""The Scan document out of visits: pooled percentiles, loss, jitter, statuses and reasons. No I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.core.matrix import empty_matrix
from netprobe.core.scan import (
    Agent,
    DocumentStatus,
    HostAudit,
    HostStatus,
    Measurement,
    RttStatistics,
    Scan,
    ScannedHost,
    Stamps,
    VisitTable,
)
from netprobe.core.text import listed
from netprobe.probe.options import ScanOptions
from netprobe.probe.percentile import percentiles
from netprobe.probe.visits import RTT, VisitResult

PERCENTILES = {"min": 0, "p10": 10, "p50": 50, "p90": 90, "p99": 99}
REASONS_SHOWN = 8
GOODPUT_KEY = "goodput_bytes_per_s"
PATH = "path"


@dataclass(frozen=True, kw_only=True)
class HostOutcome:
    """What became of a host. ``status`` is ok unless its agent never came up or went."""

    host: Host
    status: HostStatus = "ok"
    reason: str | None = None
    agent: Agent | None = None
    audit: HostAudit | None = None

    def changed(self, **fields: Any) -> HostOutcome:
        """The same with some fields replaced."""
        return dataclasses.replace(self, **fields)


@dataclass(frozen=True, kw_only=True)
class ScanOutcome:
    """A finished scan. ``interrupted`` when it was ended early and holds what there was by then."""

    scan: Scan
    samples: dict[str, NDArray[Any]]
    """Arrays for the .npz beside the scan, see ``sample_table``."""
    interrupted: bool = False
    visits: tuple[VisitResult, ...] = field(default=(), repr=False)


class NoReadingError(NothingMeasuredError):
    """No link gave a reading; ``outcome`` holds what was seen all the same: who was not reached, and why."""

    def __init__(self, message: str, outcome: ScanOutcome) -> None:
        self.outcome = outcome
        super().__init__(message)


def build_outcome(
    outcomes: Sequence[HostOutcome],
    visits: Sequence[VisitResult],
    options: ScanOptions,
    *,
    measurements: Sequence[Measurement],
    rounds: int,
    duration_s: float,
    interrupted: bool = False,
    warnings: Sequence[str] = (),
    controller: HostAudit | None = None,
) -> ScanOutcome:
    """The document and the arrays. Raises NoReadingError for two hosts or more without a reading,
    and for a single host that was not reached."""
    ordered = sorted(visits, key=lambda v: (v.round, v.src, v.dst))
    matrices = link_matrices(len(outcomes), ordered)
    hosts = _scanned(outcomes, ordered)
    measured = bool(np.isfinite(matrices["p10"]).any())
    status: DocumentStatus = "ok" if all(h.status == "ok" for h in hosts) and not interrupted else "partial"
    if not measured and (len(outcomes) > 1 or hosts[0].status != "ok"):
        status = "failed"
    names = [outcome.host.name for outcome in outcomes]
    scan = Scan(
        status=status,
        reason=_reason(hosts, interrupted),
        seed=options.seed,
        hosts=hosts,
        measurements=list(measurements),
        rtt_s=RttStatistics(**{key: matrices[key] for key in PERCENTILES}),
        loss_ratio=matrices["loss_ratio"],
        ipdv_s=matrices["ipdv_s"],
        port_spread_s=matrices.get("port_spread_s"),
        **other_matrices(len(outcomes), ordered, measurements),
        warnings=list(warnings),
        controller=controller,
        visits=VisitTable.of(_document_visit(visit, names) for visit in ordered),
        rounds=rounds,
        duration_s=duration_s,
    )
    outcome = ScanOutcome(
        scan=scan, samples=sample_table(ordered), interrupted=interrupted, visits=tuple(ordered)
    )
    if scan.status == "failed" and not interrupted:
        raise NoReadingError(_nothing(hosts), outcome)
    return outcome


def link_matrices(hosts: int, visits: Sequence[VisitResult]) -> dict[str, NDArray[np.float64]]:
    """The cells [src, dst], each from the pooled samples of that link's visits with the best stamps it has.

    Percentiles interpolate linearly between order statistics (numpy's "linear", type 7 of Hyndman and Fan).
    Where a round visited links from several source ports, a percentile is the median over the ports of each
    port's own, so that one port on a longer way moves no host, and ``port_spread_s`` (only then among the
    keys) is the largest less the smallest p10 among them; one port alone has no spread.
    """
    matrices = {key: empty_matrix(hosts) for key in (*PERCENTILES, "loss_ratio", "ipdv_s")}
    by_port = _several_ports(visits)
    if by_port:
        matrices["port_spread_s"] = empty_matrix(hosts)
    by_link: dict[tuple[int, int], list[VisitResult]] = {}
    for visit in visits:
        if visit.measurement != RTT:
            continue
        by_link.setdefault((visit.src, visit.dst), []).append(visit)
    for cell, group in by_link.items():
        sent = sum(visit.sent for visit in group)
        if sent:
            matrices["loss_ratio"][cell] = 1 - sum(visit.received for visit in group) / sent
        group = _best_stamped(group)
        ports = _percentiles(group, by_port=by_port)
        if not len(ports):
            continue
        for key, values in zip(PERCENTILES, ports.T, strict=True):
            matrices[key][cell] = values[0] if len(values) == 1 else np.median(values)
        if len(ports) > 1:
            matrices["port_spread_s"][cell] = np.ptp(ports[:, list(PERCENTILES).index("p10")])
        variations = _pooled([successive_variation(visit) for visit in group])
        if variations.size:
            matrices["ipdv_s"][cell] = variations.mean()
    return matrices


def _several_ports(visits: Sequence[VisitResult]) -> bool:
    """Whether links were visited from several source ports: then a round has more visits of a link than one."""
    places = [(v.round, v.src, v.dst) for v in visits if v.measurement == RTT]
    return len(set(places)) < len(places)


def _percentiles(group: Sequence[VisitResult], *, by_port: bool) -> NDArray[np.float64]:
    """A row for each source port that has samples, a column for each of PERCENTILES; else all samples in one."""
    pools: dict[int | None, list[NDArray[np.float64]]] = {}
    for visit in group:
        if visit.size:
            pools.setdefault(visit.src_port if by_port else None, []).append(visit.rtt_s)
    wanted = list(PERCENTILES.values())
    rows = [percentiles(_pooled(samples), wanted) for samples in pools.values()]
    return np.array(rows, dtype=np.float64).reshape(-1, len(wanted))


def _pooled(samples: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return samples[0] if len(samples) == 1 else np.concatenate(samples)


def other_matrices(
    hosts: int, visits: Sequence[VisitResult], measurements: Sequence[Measurement]
) -> dict[str, Any]:
    """The matrices [src, dst] beside those of RTT, by key of the document; those not measured are left out."""
    goodput = {m.id: empty_matrix(hosts) for m in measurements if m.key == GOODPUT_KEY}
    rates: dict[tuple[str, int, int], list[float]] = {}
    hops, mtu = empty_matrix(hosts), empty_matrix(hosts)
    for visit in visits:
        if visit.goodput is not None and visit.measurement in goodput:
            rates.setdefault((visit.measurement, visit.src, visit.dst), []).append(visit.goodput.bytes_per_s)
        if visit.path is not None:
            hops[visit.src, visit.dst] = np.nan if visit.path.hops is None else visit.path.hops
            mtu[visit.src, visit.dst] = np.nan if visit.path.mtu_bytes is None else visit.path.mtu_bytes
    for (id_, src, dst), values in rates.items():
        goodput[id_][src, dst] = np.median(values)
    found: dict[str, Any] = {GOODPUT_KEY: goodput} if goodput else {}
    if any(m.id == PATH for m in measurements):
        found |= {"hops": hops, "path_mtu_bytes": mtu}
    return found


def _best_stamped(visits: list[VisitResult]) -> list[VisitResult]:
    """The visits at the best level of stamps among them: levels differ by more than racks do."""
    levels = list(get_args(Stamps))
    best = min((levels.index(v.stamps) for v in visits if v.stamps is not None), default=None)
    return visits if best is None else [v for v in visits if v.stamps == levels[best]]


def successive_variation(visit: VisitResult) -> NDArray[np.float64]:
    """|difference of delay| of each two successive probes that both came back (RFC 3393), in seconds."""
    successive = np.diff(visit.seq.astype(np.int64)) == 1
    variation: NDArray[np.float64] = np.abs(np.diff(visit.rtt_s))[successive]
    return variation


def sample_table(visits: Sequence[VisitResult]) -> dict[str, NDArray[Any]]:
    """The arrays of the samples file; docs/protocol.md describes them.

    With V visits in the document's order and S samples in all: ``visit_start`` int64 (V + 1), visit v has
    samples visit_start[v] to visit_start[v + 1]; ``src``, ``dst`` (indices into hosts), ``round`` int32 (V);
    ``src_port``, ``dst_port`` int32 (V, -1
    unknown); ``started_s`` float64 (V); ``stamps`` uint8 (V): 0 none, 1 kernel, 2 kernel_rx, 3 user; ``seq`` uint32,
    ``sent_at_s`` float64 and ``rtt_s`` float64 (S).
    """
    sizes = [visit.size for visit in visits]
    levels = {None: 0, "kernel": 1, "kernel_rx": 2, "user": 3}

    def joined(key: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(getattr(v, key) for v in visits)]).astype(dtype)

    def ports(key: str) -> NDArray[np.int32]:
        return np.array([-1 if getattr(v, key) is None else getattr(v, key) for v in visits], dtype=np.int32)

    return {
        "visit_start": np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
        "src": np.array([visit.src for visit in visits], dtype=np.int32),
        "dst": np.array([visit.dst for visit in visits], dtype=np.int32),
        "round": np.array([visit.round for visit in visits], dtype=np.int32),
        "src_port": ports("src_port"),
        "dst_port": ports("dst_port"),
        "started_s": np.array([visit.started_s for visit in visits], dtype=np.float64),
        "stamps": np.array([levels[visit.stamps] for visit in visits], dtype=np.uint8),
        "seq": joined("seq", np.uint32),
        "sent_at_s": joined("sent_at_s", np.float64),
        "rtt_s": joined("rtt_s", np.float64),
    }


def _document_visit(visit: VisitResult, names: Sequence[str]) -> dict[str, Any]:
    """The keys of a document's Visit; those of ``rest`` only where there is something."""
    record = {
        "measurement": visit.measurement,
        "src": names[visit.src],
        "dst": names[visit.dst],
        "round": visit.round,
        "started_s": visit.started_s,
        "duration_s": visit.duration_s,
        "method": visit.method,
        "src_port": visit.src_port,
        "dst_port": visit.dst_port,
        "stamps": visit.stamps,
        "sent": visit.sent,
        "received": visit.received,
        "samples": visit.size,
        "rejected": visit.rejected,
        "beside": visit.beside,
        "reason": visit.reason,
    }
    for key, reading in (("goodput", visit.goodput), ("path", visit.path)):
        if reading is not None:
            record[key] = reading.model_dump(mode="json")
    return record


def _scanned(outcomes: Sequence[HostOutcome], visits: Sequence[VisitResult]) -> list[ScannedHost]:
    """Hosts with their statuses: one that is up, but of which a measurement with another one that is up gave no
    reading, is partial. A link that was never to be probed (a budget) is nobody's fault."""
    up = {i for i, outcome in enumerate(outcomes) if outcome.status == "ok"}
    reasons = {(v.measurement, v.src, v.dst): v.reason for v in visits if v.reason is not None}
    read = {(v.measurement, v.src, v.dst) for v in visits if v.has_reading}
    tried = dict.fromkeys((v.measurement, v.src, v.dst) for v in visits)
    missing_of: dict[int, list[tuple[str, int, int]]] = {}
    for link in tried:
        _id, src, dst = link
        if link not in read and src in up and dst in up:
            missing_of.setdefault(src, []).append(link)
            missing_of.setdefault(dst, []).append(link)
    scanned = []
    for i, outcome in enumerate(outcomes):
        status, reason = outcome.status, outcome.reason
        if status == "ok" and i in missing_of:
            ids = [link[0] for link in missing_of[i]]
            first = RTT if RTT in ids else ids[0]
            missing = [link for link in missing_of[i] if link[0] == first]
            peers = sorted({dst if src == i else src for _id, src, dst in missing})
            named = listed([outcomes[j].host.name for j in peers], 3)
            why = next((reasons[link] for link in missing if link in reasons), "not measured")
            what = "reading" if first == RTT else first
            status, reason = "partial", f"no {what} with {named}: {why}"
        scanned.append(
            ScannedHost.model_validate(
                outcome.host.model_dump()
                | {"status": status, "reason": reason, "agent": outcome.agent, "audit": outcome.audit}
            )
        )
    return scanned


def _reason(hosts: Sequence[ScannedHost], interrupted: bool) -> str | None:
    parts = ["interrupted"] if interrupted else []
    for status in ("unreachable", "failed", "partial"):
        count = sum(host.status == status for host in hosts)
        parts += [f"{count} of {len(hosts)} hosts {status}"] if count else []
    return "; ".join(parts) or None


def _nothing(hosts: Sequence[ScannedHost]) -> str:
    """One line that names each host's reason, hosts with the same one together."""
    by_reason: dict[str, list[str]] = {}
    for host in hosts:
        by_reason.setdefault(host.reason or "no peer to measure with", []).append(host.name)
    parts = [f"{listed(named)}: {reason}" for reason, named in list(by_reason.items())[:REASONS_SHOWN]]
    if len(by_reason) > REASONS_SHOWN:
        parts.append(f"and {len(by_reason) - REASONS_SHOWN} more reasons")
    return "no link could be measured: " + "; ".join(parts)
