"""Made-up documents for tests: fleets of racks with known distances, no network involved."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost, VisitTable

INSIDE_S, ACROSS_S = 100e-6, 300e-6


def rack_labels(racks: Sequence[int]) -> list[int]:
    """The rack of each host, racks one after another."""
    return [rack for rack, size in enumerate(racks) for _ in range(size)]


def rack_rtt(racks: Sequence[int], *, seed: int, noise_s: float = 3e-6) -> FloatMatrix:
    """RTTs in seconds: 100 us inside a rack, 300 us across, plus a little noise a link."""
    labels = np.array(rack_labels(racks))
    rng = np.random.default_rng(seed)
    base = np.where(labels[:, None] == labels[None, :], INSIDE_S, ACROSS_S)
    rtt = base + rng.gamma(2.0, noise_s / 2, size=base.shape)
    np.fill_diagonal(rtt, np.nan)
    return rtt


def make_scan(
    rtt_s: FloatMatrix, *, names: Sequence[str] | None = None, status: str = "ok", visits: bool = True
) -> Scan:
    """A scan whose p10 is ``rtt_s`` (NaN: no reading, all probes lost)."""
    size = len(rtt_s)
    names = names or [f"h{i}" for i in range(size)]
    lost = np.where(np.isnan(rtt_s), 1.0, 0.0)
    np.fill_diagonal(lost, np.nan)
    pairs = itertools.permutations(range(size), 2) if visits else ()
    return Scan(
        status=status,  # type: ignore[arg-type]
        hosts=[
            ScannedHost(name=name, address=f"10.0.{i // 250}.{i % 250 + 1}") for i, name in enumerate(names)
        ],
        measurements=[Measurement(id="rtt", key="rtt_s", method="stamp", unit="s", statistic="p10")],
        rtt_s=RttStatistics(min=rtt_s, p10=rtt_s, p50=rtt_s, p90=rtt_s * 1.1, p99=rtt_s * 1.5),
        loss_ratio=lost,
        ipdv_s=rtt_s * 0.01,
        visits=VisitTable.of(
            {
                "src": names[i],
                "dst": names[j],
                "round": k,
                "started_s": k * 0.1,
                "duration_s": 0.1,
                "method": "stamp",
                "src_port": 2000,
                "dst_port": 1000,
                "stamps": None if np.isnan(rtt_s[i, j]) else "kernel",
                "sent": 100,
                "received": 0 if np.isnan(rtt_s[i, j]) else 100,
                "samples": 0 if np.isnan(rtt_s[i, j]) else 98,
                "beside": 0,
            }
            for k, (i, j) in enumerate(pairs)
        ),
        rounds=size * 2,
        duration_s=1.0,
    )


def rack_scan(racks: Sequence[int], *, seed: int = 0, shuffle: bool = True) -> tuple[Scan, list[int]]:
    """A scan of a fleet of racks with names and positions that reveal nothing, and each host's rack."""
    rtt = rack_rtt(racks, seed=seed)
    labels = rack_labels(racks)
    rng = np.random.default_rng(seed + 1000)
    order = rng.permutation(len(labels)) if shuffle else np.arange(len(labels))
    numbers = rng.permutation(len(labels))
    scan = make_scan(rtt[np.ix_(order, order)], names=[f"n{k}" for k in numbers])
    return scan, [labels[i] for i in order]


def permuted(scan: Scan, order: Sequence[int]) -> Scan:
    """The same scan with its hosts in another order."""
    index = np.ix_(order, order)
    return scan.model_copy(
        update={
            "hosts": [scan.hosts[i] for i in order],
            "rtt_s": RttStatistics(
                **{k: getattr(scan.rtt_s, k)[index] for k in ("min", "p10", "p50", "p90", "p99")}
            ),
            "loss_ratio": scan.loss_ratio[index],
            "ipdv_s": scan.ipdv_s[index],
        }
    )


def capacity_of(map_: Map, *, without: str = "") -> Capacity:
    """Hosts of 8 MB/s whose racks' uplinks carry 8 MB/s as well."""
    names = [host.name for host in map_.hosts]
    ids = [f"{kind}:{name}" for kind in ("tx", "rx") for name in names]
    ids += [f"{kind}:{group.id}" for kind in ("up", "down") for group in map_.groups]
    return Capacity(
        status="ok",
        hosts=list(map_.hosts),
        groups=list(map_.groups),
        resources=[
            Resource(id=id_, kind=id_.partition(":")[0], bytes_per_s=8e6, shared_by=[])
            for id_ in ids
            if id_ != without
        ],
        oversubscription=[],
        tests=[],
        duration_s=1.0,
    )
