"""scan -> map: denoise the distances, judge locality, form groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from netprobe.cluster import Grouping as FoundGrouping
from netprobe.cluster import compare_methods, find_groups, ids_like
from netprobe.core.errors import DocumentError, NothingMeasuredError
from netprobe.core.hosts import natural_order
from netprobe.core.map import Group, Grouping, HeldOut, Layers, Map, RttLayer, Verdict
from netprobe.core.matrix import FloatMatrix, empty_matrix
from netprobe.core.scan import Scan
from netprobe.embed import Embedding, EmbedOptions, fit_embedding
from netprobe.pipeline.findings import outliers_of


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
    """Make the map of a scan.

    Computing is done in natural name order, so that neither the order of the hosts file nor the unit
    changes a result. Hosts that have no reading, or none that ties them to the largest connected part of
    the fleet, are ``unplaced``. Raises NothingMeasuredError when no link was measured.
    """
    options = options or MapOptions()
    rtt = next((m for m in scan.measurements if m.id == "rtt"), None)
    if rtt is None:
        raise DocumentError("the scan has no measurement rtt, and a map needs one")
    raw: FloatMatrix | None = getattr(scan.rtt_s, rtt.statistic, None)
    if raw is None:
        raise DocumentError(f"the scan's statistic {rtt.statistic!r} is none of its matrices")
    order = natural_order(scan.hosts)
    raw = raw[np.ix_(order, order)].copy()
    np.fill_diagonal(raw, 0.0)
    placed = connected(raw)
    if len(scan.hosts) > 1 and len(placed) < 2:
        raise NothingMeasuredError("the scan holds no measured link: there is nothing to map")
    part = raw[np.ix_(placed, placed)]
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
    names = [scan.hosts[i].name for i in where]
    unplaced = [scan.hosts[i].name for i in order if i not in set(where)]
    return Map(
        seed=seed,
        parents=[scan.parent()],
        hosts=list(scan.hosts),
        unplaced=unplaced,
        layers=Layers(
            rtt=_layer(
                fit,
                where,
                len(scan.hosts),
                options.embed,
                incomplete=bool((np.isnan(part) & np.isnan(part.T)).any()),
            )
        ),
        grouping=Grouping(method=grouping.method, k=grouping.k, evidence=evidence),
        groups=_groups(names, grouping, fit.distance_s, options.like),
        verdict=Verdict(
            locality=verdict.locality,
            contrast=verdict.contrast,
            p_value=verdict.p_value,
            text=verdict.text,
        ),
        outliers=outliers_of(part, grouping.labels, names),
    )


def connected(raw: FloatMatrix) -> list[int]:
    """Indices of the largest set of hosts that measured links tie together (ties: the first)."""
    known = ~np.isnan(raw)
    known |= known.T
    left = set(range(len(raw)))
    best: list[int] = []
    while left:
        start = min(left)
        reached, frontier = {start}, [start]
        while frontier:
            near = {int(j) for j in np.flatnonzero(known[frontier].any(axis=0))} - reached
            reached |= near
            frontier = sorted(near)
        left -= reached
        if len(reached) > len(best):
            best = sorted(reached)
    return best


def _layer(
    fit: Embedding, where: list[int], size: int, options: EmbedOptions, *, incomplete: bool
) -> RttLayer:
    distance = empty_matrix(size)
    distance[np.ix_(where, where)] = fit.distance_s
    coordinates: list[list[float]] = [[] for _ in range(size)]
    heights: list[float | None] = [None] * size
    for row, i in enumerate(where):
        coordinates[i] = [float(x) for x in fit.coordinates[row]]
        heights[i] = float(fit.heights_s[row])
    factor = None
    if incomplete and fit.interval_factor is not None:
        factor = empty_matrix(size)
        factor[np.ix_(where, where)] = fit.interval_factor
    return RttLayer(
        interval_factor=factor,
        distance_s=distance,
        coordinates=coordinates,
        heights_s=heights,
        stress=fit.stress,
        held_out=HeldOut(links=fit.held_out_pairs, median_relative_error=fit.held_out_median_relative_error),
        method=options.method,
        parameters={
            "alpha": options.alpha,
            "dimensions": options.dimensions,
            "heights": options.uses_heights,
            "restarts": options.restarts,
            "iterations": options.iterations,
            "learning_rate": options.learning_rate,
            "huber_delta": options.huber_delta,
            "winsorise": fit.cap,
            "held_out": options.held_out,
            "converged": fit.converged,
            "weights": fit.weights,
            "backend": fit.backend,
        },
    )


def _groups(
    names: list[str], grouping: FoundGrouping, distance_s: FloatMatrix, like: Map | None
) -> list[Group]:
    members_of = [[names[i] for i in members] for members in grouping.members()]
    earlier = {group.id: group.hosts for group in like.groups} if like is not None else {}
    ids = ids_like(members_of, earlier)
    groups = []
    for label in range(grouping.k):
        members = np.flatnonzero(grouping.labels == label)
        inside = distance_s[np.ix_(members, members)]
        leader = int(np.argmin(inside.sum(axis=1)))
        groups.append(
            Group(
                id=ids[label],
                hosts=members_of[label],
                leader=names[members[leader]],
                radius_s=float(inside[leader].max()),
            )
        )
    return groups
