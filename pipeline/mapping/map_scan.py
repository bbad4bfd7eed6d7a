"""scan -> map: denoise the distances, judge locality, form groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from netprobe.cluster import Partition, compare_methods, find_groups, ids_like
from netprobe.cluster.balanced.lloyd import check_sizes
from netprobe.core.documents.map import DIRECTED, BetaLayer, Group, Grouping, Layers, Map, RttLayer, Verdict
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import NothingMeasuredError
from netprobe.core.hosts import natural_order
from netprobe.core.numeric.distances import is_directed
from netprobe.core.units import count
from netprobe.embed import EmbedOptions, fit_embedding
from netprobe.pipeline.mapping.findings import outliers_of
from netprobe.pipeline.mapping.layers import Readings, make_layer, read_layers


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """How to make a map.

    ``groups`` is ``natural`` (k by evidence), ``sqrt`` (PLink's k = round(sqrt N)) or ``auto`` (natural where
    there is locality, sqrt where there is none). ``like`` is an earlier map whose group ids are kept.
    ``compare`` puts natural and sqrt groups side by side into the evidence.
    """

    embed: EmbedOptions = field(default_factory=EmbedOptions)
    groups: Literal["natural", "sqrt", "auto"] = "natural"
    k: int | None = None
    elasticity: float = 2.0
    like: Map | None = None
    compare: bool = False


def map_scan(scan: Scan, *, options: MapOptions | None = None, seed: int = 0) -> Map:
    """Make the map of a scan: a layer for RTT and one for goodput, where they were measured.

    Groups, verdict and outliers are those of RTT, or of goodput where no RTT ties two hosts together.
    Computing is done in natural name order, so that neither the order of the hosts file nor the unit
    changes a result. Hosts that have no reading, or none that ties them to the largest connected part of
    the fleet, are ``unplaced``; where another part is as large nobody can tell which is the fleet, and the
    verdict says so. Raises NothingMeasuredError when no link was measured, and InfeasibleError for a ``k`` that
    the hosts cannot form, before anything is denoised.
    """
    options = options or MapOptions()
    order = natural_order(scan.hosts)
    readings = read_layers(scan, order)
    main = next((r for r in readings if len(scan.hosts) == 1 or len(connected(r.raw)) > 1), None)
    if main is None:
        raise NothingMeasuredError("the scan holds no measured link: there is nothing to map")
    parts = islands(main.raw)
    placed = parts[0]
    if options.k is not None:
        check_sizes(len(placed), options.k, size_min=1, size_max=len(placed))
    part = main.raw[np.ix_(placed, placed)]
    fit = fit_embedding(part, options=options.embed, seed=seed)
    grouping, verdict = find_groups(
        fit.distance_s, part, method=options.groups, k=options.k, elasticity=options.elasticity, seed=seed
    )
    evidence = dict(grouping.evidence)
    if options.compare:
        evidence["comparison"] = compare_methods(
            fit.distance_s, part, grouping, elasticity=options.elasticity, seed=seed
        )
    where = [order[i] for i in placed]
    mapped = set(where)
    names = [scan.hosts[i].name for i in where]
    layers: dict[str, RttLayer | BetaLayer] = {
        main.layer: make_layer(main, part, fit, where, scan.hosts, options.embed)
    }
    for other in readings:
        if other is not main and (
            second := _second_layer(other, order, placed, grouping, scan, options, seed)
        ):
            layers[other.layer] = second
    directed = any(is_directed(layer.distance) for layer in layers.values())
    return Map(
        **({"schema_": Map.schema_name(), "requires": [DIRECTED]} if directed else {}),  # type: ignore[arg-type]
        seed=seed,
        parents=[scan.parent()],
        hosts=list(scan.hosts),
        unplaced=[scan.hosts[i].name for i in order if i not in mapped],
        layers=Layers(**layers),  # type: ignore[arg-type]
        grouping=Grouping(method=grouping.method, k=grouping.k, layer=main.layer, evidence=evidence),
        groups=_groups(names, grouping, fit.distance_s, main.layer, options.like),
        verdict=_verdict(verdict, main.layer, [[scan.hosts[order[i]].name for i in part] for part in parts]),
        outliers=outliers_of(part, grouping.labels, names, layer=main.layer),
    )


def islands(raw: FloatMatrix) -> list[list[int]]:
    """Sets of hosts (indices) that measured links tie together, the largest first (ties: the first)."""
    known = ~np.isnan(raw)
    known |= known.T
    left = set(range(len(raw)))
    found: list[list[int]] = []
    while left:
        start = min(left)
        reached, frontier = {start}, [start]
        while frontier:
            near = {int(j) for j in np.flatnonzero(known[frontier].any(axis=0))} - reached
            reached |= near
            frontier = sorted(near)
        left -= reached
        found.append(sorted(reached))
    return sorted(found, key=lambda part: (-len(part), part[0]))


def connected(raw: FloatMatrix) -> list[int]:
    """Indices of the largest set of hosts that measured links tie together (ties: the first)."""
    return next(iter(islands(raw)), [])


def _second_layer(
    readings: Readings,
    order: list[int],
    placed: list[int],
    grouping: Partition,
    scan: Scan,
    options: MapOptions,
    seed: int,
) -> RttLayer | BetaLayer | None:
    """The layer of a measurement other than the one that groups come from; None where it ties no two placed hosts."""
    within = connected(readings.raw[np.ix_(placed, placed)])
    if len(within) < 2:
        return None
    rows = [placed[i] for i in within]
    part = readings.raw[np.ix_(rows, rows)]
    where = [order[i] for i in rows]
    return make_layer(
        readings,
        part,
        fit_embedding(part, options=options.embed, seed=seed),
        where,
        scan.hosts,
        options.embed,
        outliers=outliers_of(
            part, grouping.labels[within], [scan.hosts[i].name for i in where], layer=readings.layer
        ),
    )


def _verdict(found: Verdict, layer: str, parts: list[list[str]]) -> Verdict:
    """The verdict in a document's words: by what it was judged, and what it cannot know.

    parts: names of the hosts that measured links tie together, the placed ones first.
    """
    if len(parts) > 1 and len(parts[1]) == len(parts[0]):
        as_large = sum(len(part) == len(parts[0]) for part in parts)
        text = (
            f"cannot tell: no measured link joins {as_large} sets of {count(len(parts[0]), 'host')} each, and only "
            f"that of {parts[0][0]} is mapped: measure across"
        )
        found = Verdict(locality="cannot_tell", text=text)
    text = found.text if layer == "rtt" else f"{found.text}; judged by goodput alone"
    return found.model_copy(update={"text": text})


def _groups(
    names: list[str], grouping: Partition, distance: FloatMatrix, layer: str, like: Map | None
) -> list[Group]:
    members_of = [[names[i] for i in members] for members in grouping.members()]
    earlier = {group.id: group.hosts for group in like.groups} if like is not None else {}
    ids = ids_like(members_of, earlier)
    groups = []
    for label in range(grouping.k):
        members = np.flatnonzero(grouping.labels == label)
        inside = distance[np.ix_(members, members)]
        leader = int(np.argmin(inside.sum(axis=1)))
        groups.append(
            Group(
                id=ids[label],
                hosts=members_of[label],
                leader=names[members[leader]],
                **{"radius_s" if layer == "rtt" else "radius_s_per_byte": float(inside[leader].max())},
            )
        )
    return groups
