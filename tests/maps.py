"""Made-up maps and capacities for planners: groups as they are drawn, nothing fitted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.documents.map import BetaLayer, Group, Grouping, Layers, Map, RttLayer, Verdict
from netprobe.core.documents.scan import ScannedHost

INSIDE_S, ACROSS_S = 100e-6, 300e-6
HOST_BYTES_PER_S = 1e8


def made_map(
    sizes: Sequence[int],
    *,
    unplaced: int = 0,
    goodput: float | None = None,
    rows: Sequence[int] | None = None,
    seed: int | None = None,
) -> Map:
    """Racks of ``sizes`` hosts h0, h1, ..; shuffled where a ``seed`` is given; ``rows`` is the row of each rack.

    ``goodput``: what one connection carries between any two, where the map is to know it.
    """
    rack = [number for number, size in enumerate(sizes) for _ in range(size)]
    if seed is not None:
        random.Random(seed).shuffle(rack)
    count = len(rack) + unplaced
    label = np.array([*rack, *[-1] * unplaced])
    rtt = np.where(label[:, None] == label[None, :], INSIDE_S, ACROSS_S)
    rtt[label < 0, :], rtt[:, label < 0] = np.nan, np.nan
    np.fill_diagonal(rtt, 0.0)
    hosts = [ScannedHost(name=f"h{i}", address=f"10.0.{(i + 1) >> 8}.{(i + 1) & 255}") for i in range(count)]
    # Ids in the order of their first hosts, as a map counts them.
    first = list(dict.fromkeys(rack))
    members = [[f"h{i}" for i, own in enumerate(rack) if own == number] for number in first]
    evidence: dict[str, Any] = {}
    if rows is not None:
        order = [rows[number] for number in first]
        numbered = {row: at for at, row in enumerate(dict.fromkeys(order))}
        evidence["levels"] = [{}, {"of_groups": [numbered[row] for row in order]}]
    layer = RttLayer(
        coordinates=[[] for _ in hosts], method="ensemble", distance_s=rtt, heights_s=[0.0] * count
    )
    beta = None
    if goodput is not None:
        rate = np.where(np.isnan(rtt), np.nan, 1.0 / goodput)
        np.fill_diagonal(rate, 0.0)
        beta = BetaLayer(
            coordinates=[[] for _ in hosts], method="ensemble", distance_s_per_byte=rate,
            heights_s_per_byte=[0.0] * count,
        )  # fmt: skip
    return Map(
        hosts=hosts,
        unplaced=[f"h{i}" for i in range(len(rack), count)],
        layers=Layers(rtt=layer, beta=beta),
        grouping=Grouping(method="natural", k=len(members), evidence=evidence),
        groups=[Group(id=f"g{i}", hosts=names, leader=names[0]) for i, names in enumerate(members)],
        verdict=Verdict(locality="found" if len(members) > 1 else "none", text="as drawn"),
    )


def made_capacity(
    map_: Map,
    *,
    host: float = HOST_BYTES_PER_S,
    uplink: float = HOST_BYTES_PER_S,
    rates: dict[str, float | None] | None = None,
    at_least: Sequence[str] = (),
) -> Capacity:
    """Hosts and uplinks of these rates, ``rates`` by id for others; ``at_least``: ids only known to carry that."""
    made = []
    members = {group.id: list(group.hosts) for group in map_.groups}
    for kind, word, names, rate in (
        ("host_tx", "tx", [h.name for h in map_.hosts], host),
        ("host_rx", "rx", [h.name for h in map_.hosts], host),
        ("group_up", "up", list(members), uplink),
        ("group_down", "down", list(members), uplink),
    ):
        for name in names:
            id_ = f"{word}:{name}"
            value = (rates or {}).get(id_, rate)
            made.append(
                Resource(
                    id=id_,
                    kind=kind,
                    bytes_per_s=value,
                    low_bytes_per_s=value,
                    high_bytes_per_s=None if id_ in at_least else value,
                    limited_by="hosts" if id_ in at_least else "itself",
                    shared_by=members.get(name, [name]),
                )
            )
    return Capacity(
        status="ok", hosts=list(map_.hosts), groups=list(map_.groups), resources=made, oversubscription=[],
        tests=[], duration_s=1.0,
    )  # fmt: skip
