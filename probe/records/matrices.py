"""Matrices [src, dst] and columns out of visits. No I/O.

A scan of a thousand hosts has a million links, nearly all of them with one visit: those are computed many at a
time, and only the others one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import empty_matrix
from netprobe.core.documents.scan import Measurement, Stamps
from netprobe.probe.records.percentile import percentiles, row_percentiles
from netprobe.probe.records.samples import seconds
from netprobe.probe.records.visits import RTT, VisitResult

PERCENTILES = {"min": 0, "p10": 10, "p50": 50, "p90": 90, "p99": 99}
GOODPUT_KEY = "goodput_bytes_per_s"
PATH = "path"
_AT_ONCE = 4096
"""Visits whose samples are in memory as numbers of eight bytes at the same time."""
_LEVELS = {None: 0, "kernel": 1, "kernel_rx": 2, "user": 3}


def in_order(visits: Sequence[VisitResult]) -> list[VisitResult]:
    """By round, source and destination; those of one link in one round stay as they are."""
    order = np.lexsort([column(visits, key, np.int64) for key in ("dst", "src", "round")])
    return [visits[place] for place in order.tolist()]


def link_matrices(hosts: int, visits: Sequence[VisitResult]) -> dict[str, NDArray[np.float64]]:
    """The cells [src, dst], each from the pooled samples of that link's visits with the best stamps it has.

    Percentiles interpolate linearly between order statistics (numpy's "linear", type 7 of Hyndman and Fan).
    Where a round visited links from several source ports, a percentile is the median over the ports of each
    port's own, so that one port on a longer way moves no host, and ``port_spread_s`` (only then among the
    keys) is the largest less the smallest p10 among them; one port alone has no spread.
    """
    matrices = {key: empty_matrix(hosts) for key in (*PERCENTILES, "loss_ratio", "ipdv_s")}
    visits = [visit for visit in visits if visit.measurement == RTT]
    link = column(visits, "src", np.int64) * hosts + column(visits, "dst", np.int64)
    # A round has more visits of a link than one where links are visited from several source ports.
    _rounds, round_ = np.unique(column(visits, "round", np.int64), return_inverse=True)
    by_port = len(np.unique(round_.reshape(-1) * hosts * hosts + link)) < len(visits)
    if by_port:
        matrices["port_spread_s"] = empty_matrix(hosts)
    _links, place_of, count = np.unique(link, return_inverse=True, return_counts=True)
    alone = (count == 1)[place_of.reshape(-1)]
    _single_visits(matrices, [visits[place] for place in np.flatnonzero(alone).tolist()])
    by_link: dict[tuple[int, int], list[VisitResult]] = {}
    for place in np.flatnonzero(~alone).tolist():
        visit = visits[place]
        by_link.setdefault((visit.src, visit.dst), []).append(visit)
    for cell, group in by_link.items():
        _pooled_visits(matrices, cell, group, by_port=by_port)
    return matrices


def _single_visits(matrices: dict[str, NDArray[np.float64]], visits: Sequence[VisitResult]) -> None:
    """Fill in the cells of links with one visit each."""
    sent, received = column(visits, "sent", np.float64), column(visits, "received", np.float64)
    cells = column(visits, "src", np.int64), column(visits, "dst", np.int64)
    tried = sent > 0
    matrices["loss_ratio"][cells[0][tried], cells[1][tried]] = 1 - received[tried] / sent[tried]
    for together in _of_one_shape(visits):
        cell = column(together, "src", np.int64), column(together, "dst", np.int64)
        shape = len(together), together[0].size
        rtt_s = _seconds([visit.samples.rtt[visit.start : visit.stop] for visit in together]).reshape(shape)
        for key, values in zip(PERCENTILES, row_percentiles(rtt_s, PERCENTILES.values()).T, strict=True):
            matrices[key][cell] = values
        seq = np.concatenate([visit.samples.seq[visit.start : visit.stop] for visit in together])
        successive = np.diff(seq.reshape(shape).astype(np.int64), axis=1) == 1
        variation = np.where(successive, np.abs(np.diff(rtt_s, axis=1)), 0.0).sum(axis=1)
        counted = successive.sum(axis=1)
        some = counted > 0
        matrices["ipdv_s"][cell[0][some], cell[1][some]] = variation[some] / counted[some]


def _of_one_shape(visits: Sequence[VisitResult]) -> Iterator[list[VisitResult]]:
    """The visits that have samples, in lots of as many each; some thousand visits at the most."""
    lots: dict[int, list[VisitResult]] = {}
    for visit in visits:
        if visit.size:
            lot = lots.setdefault(visit.size, [])
            lot.append(visit)
            if len(lot) == _AT_ONCE:
                yield lots.pop(visit.size)
    yield from lots.values()


def _pooled_visits(
    matrices: dict[str, NDArray[np.float64]],
    cell: tuple[int, int],
    group: list[VisitResult],
    *,
    by_port: bool,
) -> None:
    """Fill in the cell of a link with several visits."""
    sent = sum(visit.sent for visit in group)
    if sent:
        matrices["loss_ratio"][cell] = 1 - sum(visit.received for visit in group) / sent
    group = _best_stamped(group)
    ports = _percentiles(group, by_port=by_port)
    if not len(ports):
        return
    for key, values in zip(PERCENTILES, ports.T, strict=True):
        matrices[key][cell] = values[0] if len(values) == 1 else np.median(values)
    if len(ports) > 1:
        matrices["port_spread_s"][cell] = np.ptp(ports[:, list(PERCENTILES).index("p10")])
    variations = np.concatenate([successive_variation(visit) for visit in group])
    if variations.size:
        matrices["ipdv_s"][cell] = variations.mean()


def _percentiles(group: Sequence[VisitResult], *, by_port: bool) -> NDArray[np.float64]:
    """A row for each source port that has samples, a column for each of PERCENTILES; else all samples in one."""
    pools: dict[int | None, list[NDArray[np.float64]]] = {}
    for visit in group:
        if visit.size:
            pools.setdefault(visit.src_port if by_port else None, []).append(visit.rtt_s)
    wanted = list(PERCENTILES.values())
    rows = [percentiles(np.concatenate(samples), wanted) for samples in pools.values()]
    return np.array(rows, dtype=np.float64).reshape(-1, len(wanted))


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


def other_matrices(
    hosts: int, visits: Sequence[VisitResult], measurements: Sequence[Measurement]
) -> dict[str, Any]:
    """The matrices [src, dst] other than those of RTT, by key of the document; those not measured are left out."""
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


def sample_table(visits: Sequence[VisitResult]) -> dict[str, NDArray[Any]]:
    """The arrays of the samples file; docs/protocol.md describes them.

    With V visits in the document's order and S samples in all: ``visit_start`` int64 (V + 1), visit v has
    samples visit_start[v] to visit_start[v + 1]; ``src``, ``dst`` (indices into hosts), ``round`` int32 (V);
    ``src_port``, ``dst_port`` int32 (V, -1
    unknown); ``started_s`` float64 (V); ``stamps`` uint8 (V): 0 none, 1 kernel, 2 kernel_rx, 3 user; ``seq`` uint32,
    ``sent_at_s`` float64 and ``rtt_s`` float64 (S).
    """
    starts = np.zeros(len(visits) + 1, dtype=np.int64)
    np.cumsum(column(visits, "size", np.int64), out=starts[1:])
    seq = np.empty(starts[-1], dtype=np.uint32)
    sent_at_s, rtt_s = np.empty(starts[-1]), np.empty(starts[-1])
    for first in range(0, len(visits), _AT_ONCE):
        together = visits[first : first + _AT_ONCE]
        here = slice(starts[first], starts[first + len(together)])
        seq[here] = np.concatenate([v.samples.seq[v.start : v.stop] for v in together])
        sent_at_s[here] = _seconds([v.samples.sent_at[v.start : v.stop] for v in together])
        rtt_s[here] = _seconds([v.samples.rtt[v.start : v.stop] for v in together])
    return {
        "visit_start": starts,
        "src": column(visits, "src", np.int32),
        "dst": column(visits, "dst", np.int32),
        "round": column(visits, "round", np.int32),
        "src_port": column(visits, "src_port", np.int32),
        "dst_port": column(visits, "dst_port", np.int32),
        "started_s": column(visits, "started_s", np.float64),
        "stamps": np.array([_LEVELS[visit.stamps] for visit in visits], dtype=np.uint8),
        "seq": seq,
        "sent_at_s": sent_at_s,
        "rtt_s": rtt_s,
    }


def _seconds(parts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Parts of columns of times one after the other; they may be of different types."""
    if len({part.dtype for part in parts}) == 1:
        return seconds(np.concatenate(parts))
    return np.concatenate([seconds(part) for part in parts])


def column(visits: Sequence[VisitResult], key: str, kind: Any) -> NDArray[Any]:
    """(V,) one field of all visits that is a number, -1 where it is None."""
    values: Iterable[Any] = map(operator.attrgetter(key), visits)
    if key in ("src_port", "dst_port"):
        values = (-1 if value is None else value for value in values)
    return np.fromiter(values, dtype=kind, count=len(visits))
