"""The Scan document out of visits: matrices, visits, statuses and reasons. No I/O."""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.scan import (
    Agent,
    DocumentStatus,
    HostAudit,
    HostStatus,
    Measurement,
    RttStatistics,
    Scan,
    ScannedHost,
    VisitTable,
)
from netprobe.core.documents.visits import NUMBERS
from netprobe.core.errors import NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.core.text import listed
from netprobe.probe.records.matrices import (
    PERCENTILES,
    column,
    in_order,
    link_matrices,
    other_matrices,
    sample_table,
)
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.visits import RTT, VisitResult

REASONS_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class HostOutcome:
    """The outcome of a host. ``status`` is ok unless its agent did not start or was lost."""

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
    """A finished scan. ``interrupted`` when it was ended early; it then holds the visits made so far."""

    scan: Scan
    samples: dict[str, NDArray[Any]]
    """Arrays for the .npz next to the scan, see ``sample_table``."""
    interrupted: bool = False
    visits: tuple[VisitResult, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class ScanRun:
    """How a scan ran: its rounds and length, whether it was interrupted, its warnings, the controller's audit."""

    rounds: int
    duration_s: float
    interrupted: bool = False
    warnings: Sequence[str] = ()
    controller: HostAudit | None = None
    hint: str | None = None
    """What to do where nothing was measured."""


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
    run: ScanRun,
) -> ScanOutcome:
    """The document and the arrays. Raises NoReadingError for two hosts or more without a reading,
    and for a single host that was not reached."""
    ordered = in_order(visits)
    matrices = link_matrices(len(outcomes), ordered)
    hosts = _scanned(outcomes, ordered)
    measured = bool(np.isfinite(matrices["p10"]).any())
    status: DocumentStatus = (
        "ok" if all(h.status == "ok" for h in hosts) and not run.interrupted else "partial"
    )
    if not measured and (len(outcomes) > 1 or hosts[0].status != "ok"):
        status = "failed"
    names = [outcome.host.name for outcome in outcomes]
    scan = Scan(
        status=status,
        reason=_reason(hosts, run.interrupted),
        seed=options.seed,
        hosts=hosts,
        measurements=list(measurements),
        rtt_s=RttStatistics(**{key: matrices[key] for key in PERCENTILES}),
        loss_ratio=matrices["loss_ratio"],
        ipdv_s=matrices["ipdv_s"],
        port_spread_s=matrices.get("port_spread_s"),
        **other_matrices(len(outcomes), ordered, measurements),
        warnings=list(run.warnings),
        controller=run.controller,
        visits=_visit_table(ordered, names),
        rounds=run.rounds,
        duration_s=run.duration_s,
    )
    outcome = ScanOutcome(
        scan=scan, samples=sample_table(ordered), interrupted=run.interrupted, visits=tuple(ordered)
    )
    if scan.status == "failed" and not run.interrupted:
        raise NoReadingError(_nothing(hosts) + ("" if run.hint is None else f"; {run.hint}"), outcome)
    return outcome


def _visit_table(visits: Sequence[VisitResult], names: Sequence[str]) -> VisitTable:
    """The document's visits, in this order."""
    numbers = {key: column(visits, key, kind) for key, kind in NUMBERS.items() if key != "samples"}
    texts: dict[str, list[str | None]] = {
        key: list(map(operator.attrgetter(key), visits))
        for key in ("measurement", "method", "stamps", "reason")
    }
    texts |= {key: [names[getattr(visit, key)] for visit in visits] for key in ("src", "dst")}
    texts["rest"] = [_rest(visit) for visit in visits]
    return VisitTable.of_columns(numbers | {"samples": column(visits, "size", np.int64)}, texts)


def _rest(visit: VisitResult) -> str | None:
    """The keys that few visits have, as JSON."""
    if visit.goodput is None and visit.path is None:
        return None
    readings = {"goodput": visit.goodput, "path": visit.path}
    rest = {key: one.model_dump(mode="json") for key, one in readings.items() if one is not None}
    return json.dumps(rest, sort_keys=True, allow_nan=False)


def _scanned(outcomes: Sequence[HostOutcome], visits: Sequence[VisitResult]) -> list[ScannedHost]:
    """Hosts with their statuses: one that is up, but of which a measurement with another one that is up gave no
    reading, is partial. A link that was never to be probed (a budget) is nobody's fault."""
    up = {i for i, outcome in enumerate(outcomes) if outcome.status == "ok"}
    # A visit without a reading is rare: only what is known of its link is looked at.
    unread = dict.fromkeys(_link(visit) for visit in visits if not visit.has_reading)
    of_those = [visit for visit in visits if _link(visit) in unread] if unread else []
    # What a visit met says more than why another one was not made.
    reasons = {_link(v): v.reason for v in sorted(of_those, key=lambda v: v.tried) if v.reason is not None}
    tried = {_link(visit) for visit in of_those if visit.tried}
    read = {_link(visit) for visit in of_those if visit.has_reading}
    missing_of: dict[int, list[tuple[str, int, int]]] = {}
    for link in unread:
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
            missing.sort(key=lambda link: link not in tried)
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


def _link(visit: VisitResult) -> tuple[str, int, int]:
    return visit.measurement, visit.src, visit.dst


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
