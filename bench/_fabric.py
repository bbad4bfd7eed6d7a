"""Simulated data centres of racks (and rows of racks): their map and capacities, exact or as probes read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.documents.map import Group, Grouping, Layers, Map, RttLayer, Verdict
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost, VisitTable

INSIDE_S, ACROSS_S = 20e-6, 40e-6
HOST_BYTES_PER_S = 1.25e9


@dataclass(frozen=True, kw_only=True, eq=False)
class Fabric:
    """Hosts h0, h1, .. in random places of racks of ``sizes``, by ``seed``; rates in bytes a second.

    ``oversubscribed``: what the hosts of a rack can send over what its uplink takes. ``rows``: racks in each row, whose
    uplinks take half of what those of its racks do; 0 for none. ``slow``: hosts at half the rate.
    """

    sizes: Sequence[int]
    oversubscribed: float = 4.0
    rows: int = 0
    slow: int = 0
    seed: int = 0
    rack: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Place the hosts."""
        rack = np.repeat(np.arange(len(self.sizes)), self.sizes)
        object.__setattr__(self, "rack", np.random.default_rng([self.seed, len(rack)]).permutation(rack))

    @property
    def hosts(self) -> list[str]:
        """Their names."""
        return [f"h{i}" for i in range(len(self.rack))]

    @property
    def racks(self) -> list[list[str]]:
        """The hosts of each rack, that of h0 first."""
        first = dict.fromkeys(self.rack.tolist())
        return [[f"h{i}" for i in np.flatnonzero(self.rack == one)] for one in first]

    def map(self) -> Map:
        """Exact latencies, and the racks as groups."""
        rtt = np.where(self.rack[:, None] == self.rack[None, :], INSIDE_S, ACROSS_S)
        np.fill_diagonal(rtt, 0.0)
        layer = RttLayer(
            coordinates=[[] for _ in self.hosts], method="ensemble", distance_s=rtt,
            heights_s=[0.0] * len(rtt),
        )  # fmt: skip
        return Map(
            hosts=[
                ScannedHost(name=name, address=f"10.0.{i >> 8}.{i & 255}")
                for i, name in enumerate(self.hosts, 1)
            ],
            unplaced=[],
            layers=Layers(rtt=layer),
            grouping=Grouping(method="natural", k=len(self.racks), evidence={}),
            groups=[Group(id=f"g{i}", hosts=rack, leader=rack[0]) for i, rack in enumerate(self.racks)],
            verdict=Verdict(locality="found" if len(self.racks) > 1 else "none", text="simulated"),
        )

    def scan(self, noise: float, seed: int = 0) -> Scan:
        """Round trips of both directions, each read with a lognormal error of ``noise``."""
        rtt = np.where(self.rack[:, None] == self.rack[None, :], INSIDE_S, ACROSS_S)
        rtt = rtt * np.exp(np.random.default_rng([self.seed, seed, 8]).normal(0.0, noise, rtt.shape))
        np.fill_diagonal(rtt, np.nan)
        return Scan(
            status="ok",
            hosts=[ScannedHost(name=host.name, address=host.address) for host in self.map().hosts],
            measurements=[Measurement(id="rtt", key="rtt_s", method="stamp", unit="s", statistic="p10")],
            rtt_s=RttStatistics(min=rtt, p10=rtt, p50=rtt, p90=rtt, p99=rtt),
            loss_ratio=rtt * 0.0,
            ipdv_s=rtt * 0.0,
            visits=VisitTable.of([]),
            rounds=2 * len(rtt),
            duration_s=1.0,
        )

    def capacity(
        self, noise: float = 0.0, seed: int = 0, groups: Sequence[Sequence[str]] | None = None
    ) -> Capacity:
        """What resources carry; read with a lognormal error of ``noise``, whose interval is 2 of it either way.

        ``groups``: those of a map, g0, g1, .., instead of the racks; the uplink of one carries what those of its racks
        do, each in proportion to the hosts of it.
        """
        rng = np.random.default_rng([self.seed, seed, 7])
        own = np.full(len(self.rack), HOST_BYTES_PER_S)
        own[rng.permutation(len(own))[: self.slow]] /= 2
        wanted: list[tuple[str, str, str, float, list[str]]] = []
        for kind, word in (("host_tx", "tx"), ("host_rx", "rx")):
            wanted += [
                (kind, word, name, rate, [name]) for name, rate in zip(self.hosts, own.tolist(), strict=True)
            ]
        for kind, word in (("group_up", "up"), ("group_down", "down")):
            for number, rack in enumerate(self.racks if groups is None else groups):
                rate = len(rack) * HOST_BYTES_PER_S / self.oversubscribed
                wanted.append((kind, word, f"g{number}", rate, list(rack)))
            step = max(self.rows, 1)
            for number in range(0, len(self.racks) if self.rows else 0, step):
                inside = [name for rack in self.racks[number : number + step] for name in rack]
                rate = len(inside) * HOST_BYTES_PER_S / self.oversubscribed / 2
                wanted.append((kind, word, f"netprobe-1-{number // step}", rate, inside))
        made = []
        for kind, word, name, rate, shared in wanted:
            value = rate * float(np.exp(rng.normal(0.0, noise)) if noise else 1.0)
            low, high = value * np.exp(-2 * noise), value * np.exp(2 * noise)
            made.append(
                Resource(
                    id=f"{word}:{name}",
                    kind=kind,
                    bytes_per_s=value,
                    low_bytes_per_s=float(low),
                    high_bytes_per_s=float(high),
                    limited_by="itself",
                    shared_by=shared,
                )
            )
        map_ = self.map()
        formed = [
            Group(id=f"g{i}", hosts=list(members), leader=members[0])
            for i, members in enumerate(self.racks if groups is None else groups)
        ]
        return Capacity(
            status="ok", hosts=list(map_.hosts), groups=formed, resources=made,
            oversubscription=[], tests=[], duration_s=1.0,
        )  # fmt: skip
