"""scan or map -> evaluation: its distances and its groups against where the hosts really are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netprobe.cluster import natural_groups
from netprobe.cluster.evaluate.evaluation import Evaluation, evaluate
from netprobe.core.documents.document import parse_document, read_json, schema_of
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError, NothingMeasuredError
from netprobe.core.hosts import Host, natural_order
from netprobe.pipeline.mapping.layers import beta_of
from netprobe.pipeline.mapping.map_scan import connected
from netprobe.pipeline.places import refuse_foreign
from netprobe.pipeline.truth.placement import Placement


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One document's evaluation. grouping: where its groups come from; measurement: whose distances they are."""

    kind: str
    measurement: str
    grouping: str
    evaluation: Evaluation


def load_judged(path: Path) -> Scan | Map:
    """A scan or a map. Raises DocumentError for anything else."""
    refuse_foreign(path, "map")
    data = read_json(path)
    kind, _major, _minor = schema_of(data, source=str(path))
    if kind not in ("scan", "map"):
        raise DocumentError(f"is a {kind} document, and a scan or a map is needed", source=str(path))
    model: type[Scan] | type[Map] = Scan if kind == "scan" else Map
    return parse_document(model, data, source=str(path), folder=path.parent)


def with_labels(
    document: Scan | Map, given: Sequence[Host] | None, *, source: str = "document"
) -> list[Host]:
    """The document's hosts, with the labels of the same hosts in ``given`` where there are any.

    Raises DocumentError for a host of the document that is not in ``given``.
    """
    if given is None:
        return list(document.hosts)
    known = {host.name: host for host in given}
    lost = next((host.name for host in document.hosts if host.name not in known), None)
    if lost is not None:
        raise DocumentError(f"host {lost!r} is not one of the {len(known)} hosts given", source=source)
    return [
        host.model_copy(update={"labels": {**host.labels, **known[host.name].labels}})
        for host in document.hosts
    ]


def judge(
    document: Scan | Map,
    placement: Placement,
    *,
    hosts: Sequence[Host] | None = None,
    measurement: str | None = None,
    clusterings: int = 100,
    seed: int = 0,
    source: str = "document",
) -> Judged:
    """Evaluate one document.

    A map is judged by its denoised distances and its groups. A scan by what was measured, the larger of both
    directions (as the dissertation has it), and by the natural groups of that, for it has none itself; of a goodput
    the distance is seconds per byte. Everything is computed in natural order of the names. Raises DocumentError for a
    host that the truth does not know, NothingMeasuredError for a measurement without a reading.
    """
    order = natural_order(document.hosts)
    positions = placement.of(hosts if hosts is not None else document.hosts, source=source)
    if isinstance(document, Map):
        name, distance = _map_distance(document, measurement, source)
        group_of = {host: group.id for group in document.groups for host in group.hosts}
        labels: list[str] = [group_of.get(host.name, f"unplaced {host.name}") for host in document.hosts]
        labels = [labels[i] for i in order]
        grouping = "the map's"
    else:
        name, distance = scan_distance(document, measurement, source)
        labels = _natural_labels(distance[np.ix_(order, order)], seed=seed)
        grouping = "natural groups of the readings"
    return Judged(
        kind=document.KIND,
        measurement=name,
        grouping=grouping,
        evaluation=evaluate(
            distance[np.ix_(order, order)],
            labels,
            [positions[i] for i in order],
            placement.levels,
            clusterings=clusterings,
            seed=seed,
        ),
    )


def scan_distance(scan: Scan, measurement: str | None, source: str = "scan") -> tuple[str, FloatMatrix]:
    """The measurement that was meant (default: the first) and its (N, N) distances, symmetric, NaN where missing.

    Seconds of a round trip, or seconds per byte of a goodput: the larger of both directions, or the one there is.
    """
    found = {entry.id: entry for entry in scan.measurements}
    name = measurement or next((m.id for m in scan.measurements if m.id in _measured(scan)), None)
    if name is None or name not in found or name not in _measured(scan):
        known = ", ".join(_measured(scan)) or "none"
        raise DocumentError(f"has no distances of measurement {name!r}: there are {known}", source=source)
    if name == "rtt":
        values = getattr(scan.rtt_s, found[name].statistic, None)
        if values is None:
            raise DocumentError(
                f"its statistic {found[name].statistic!r} is not one of its matrices", source=source
            )
    else:
        values = beta_of(scan.goodput_bytes_per_s[name])
    distance = np.fmax(values, values.T)
    np.fill_diagonal(distance, np.nan)
    if np.isnan(distance).all():
        raise NothingMeasuredError(f"{source}: measurement {name} has no reading: there is nothing to judge")
    return name, distance


def _measured(scan: Scan) -> list[str]:
    """Measurements whose matrices are distances, in the scan's order."""
    return [m.id for m in scan.measurements if m.id == "rtt" or m.id in scan.goodput_bytes_per_s]


def _map_distance(map_: Map, measurement: str | None, source: str) -> tuple[str, FloatMatrix]:
    """A layer's name and distances: ``rtt``, ``beta``, the id of beta's measurement, or by default that of the groups.

    A layer of a later version counts where it has the matrix ``distance_s``.
    """
    layers: dict[str, object] = {name: layer.distance for name, layer in map_.layers.named().items()}
    layers |= {
        name: extra["distance_s"]
        for name, extra in (map_.layers.model_extra or {}).items()
        if isinstance(extra, dict) and "distance_s" in extra
    }
    name = measurement or map_.grouped_by
    beta = map_.layers.beta
    if name not in layers and beta is not None and beta.parameters.get("measurement") == name:
        name = "beta"
    if name not in layers:
        raise DocumentError(f"has no layer {measurement!r}: there are {', '.join(layers)}", source=source)
    try:
        distance = np.array(layers[name], dtype=np.float64)
    except (TypeError, ValueError):
        distance = np.zeros(0)
    if distance.shape != (len(map_.hosts), len(map_.hosts)):
        raise DocumentError(
            f"layers.{name}.distance_s is not a matrix of {len(map_.hosts)} hosts", source=source
        )
    np.fill_diagonal(distance, np.nan)
    return name, distance


def _natural_labels(distance: FloatMatrix, *, seed: int) -> list[str]:
    """A group for each host; those that nothing ties to the rest are alone."""
    placed = connected(distance)
    labels = [f"alone {i}" for i in range(len(distance))]
    found = natural_groups(distance[np.ix_(placed, placed)], seed=seed)
    for place, label in zip(placed, found.labels.tolist()):
        labels[place] = f"g{label + 1}"
    return labels
