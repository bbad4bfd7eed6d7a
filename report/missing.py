"""What a scan lacks, in as few lines as can name everything: a silent host is named once, not by each of its peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from netprobe.core.documents.scan import Measurement, Scan
from netprobe.core.text import listed
from netprobe.core.units import count

MOST_LINES = 24
NAMES_SHOWN = 3


@dataclass(kw_only=True)
class _Lacking:
    """Peers that were tried, and those without a reading, of each host, in one measurement."""

    tried: Counter[str] = field(default_factory=Counter)
    peers: dict[str, set[str]] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    """Of links (src, dst)."""


def missing_lines(scan: Scan) -> list[str]:
    """Hosts that are out, those with one reason together; then hosts whose readings are missing.

    Each pair without a reading is reported in one line, that of the host with the most of them. Hosts that
    lack nothing but readings with such hosts are only counted.
    """
    lines = list(_out(scan))
    partial = {host.name for host in scan.hosts if host.status == "partial"}
    if partial:
        reported: set[frozenset[str]] = set()
        named: set[str] = set()
        for measurement in scan.measurements:
            lines += _cover(measurement, _lacking(scan, measurement, reported), reported, named)
        touched = set().union(*reported) if reported else set()
        if others := len((partial & touched) - named):
            lines.append(f"{count(others, 'other host')}: partial, and lacking nothing but that")
        lines += [
            f"{host.name}: partial: {host.reason}"
            for host in scan.hosts
            if host.name in partial and host.name not in touched
        ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [
            f"and {len(lines) - MOST_LINES + 1} more lines such as these: see scan.json"
        ]
    return lines


def _out(scan: Scan) -> Iterator[str]:
    """A line for each reason why hosts are not up."""
    together: dict[tuple[str, str | None], list[str]] = {}
    for host in scan.hosts:
        if host.status not in ("ok", "partial"):
            together.setdefault((host.status, host.reason), []).append(host.name)
    for (status, reason), names in together.items():
        yield f"{listed(names, NAMES_SHOWN)}: {status}: {reason}"


def _lacking(scan: Scan, measurement: Measurement, reported: set[frozenset[str]]) -> _Lacking:
    """Of the pairs whose hosts are both up; pairs that were already reported are left out."""
    columns, texts = scan.visits.columns, scan.visits.texts
    hosts_up = {host.name for host in scan.hosts if host.status in ("ok", "partial")}
    up = np.array([text in hosts_up for text in texts], dtype=bool)
    of_it = np.array([text == measurement.id for text in texts], dtype=bool)
    found = _Lacking()
    if not len(scan.visits):
        return found
    src, dst = columns["src"], columns["dst"]
    chosen = np.flatnonzero(of_it[columns["measurement"]] & up[src] & up[dst])
    src, dst, size = src[chosen], dst[chosen], len(texts)
    pairs = np.unique(np.minimum(src, dst) * size + np.maximum(src, dst))
    counts = np.bincount(np.concatenate([pairs // size, pairs % size]), minlength=size)
    found.tried.update({texts[i]: int(counts[i]) for i in np.flatnonzero(counts)})
    has_reading = (columns["samples"][chosen] > 0) | (columns["rest"][chosen] >= 0)
    links = src * size + dst
    lacking = ~np.isin(links, links[has_reading])
    for link, why in zip(links[lacking].tolist(), columns["reason"][chosen][lacking].tolist(), strict=True):
        pair = texts[link // size], texts[link % size]
        if frozenset(pair) not in reported:
            found.peers.setdefault(pair[0], set()).add(pair[1])
            found.peers.setdefault(pair[1], set()).add(pair[0])
            found.reasons[pair] = "not measured" if why < 0 else texts[why]
    return found


def _cover(
    measurement: Measurement, lacking: _Lacking, reported: set[frozenset[str]], named: set[str]
) -> Iterator[str]:
    """Lines until every pair is in one: the host with the most pairs left first (a greedy vertex cover)."""
    what = "reading" if measurement.id == "rtt" else measurement.id
    left = {name: set(peers) for name, peers in lacking.peers.items()}
    while left:
        name = max(left, key=lambda one: len(left[one]))  # the first of several
        peers = left.pop(name)
        if not peers:
            continue
        for peer in peers:
            left[peer].discard(name)
            reported.add(frozenset((name, peer)))
        named.add(name)
        links = [link for peer in sorted(peers) for link in ((name, peer), (peer, name))]
        # The reason that most links share names this host, where the others name each peer.
        reasons = Counter(lacking.reasons[link] for link in links if link in lacking.reasons)
        why = reasons.most_common(1)[0][0]
        if len(peers) == 1:
            named |= peers
            yield f"{name} and {next(iter(peers))}: no {what} between them: {why}"
        elif len(peers) == lacking.tried[name]:
            yield f"{name}: no {what} with any of {count(len(peers), 'host')}: {why}"
        else:
            whom = listed(sorted(peers), NAMES_SHOWN)
            yield f"{name}: no {what} with {whom}, of {lacking.tried[name]} hosts: {why}"
