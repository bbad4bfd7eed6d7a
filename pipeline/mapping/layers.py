"""The layers of a map: which measurements of a scan are distances, and a fitted layer of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netprobe.core.documents.map import BetaLayer, HeldOut, Outliers, RttLayer
from netprobe.core.documents.matrix import FloatMatrix, empty_matrix
from netprobe.core.documents.scan import Measurement, Scan, ScannedHost
from netprobe.core.errors import DocumentError
from netprobe.core.numeric.medians import median
from netprobe.embed import Embedding, EmbedOptions
from netprobe.pipeline.mapping.directions import Directions, with_directions

IMPORTED = "imported"
"""The method of a measurement that others made."""
_LISTED = 100
_LEAST_SHARE = 1e-5
"""Of the median: no two hosts of a fleet are that much nearer than its others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """What one measurement says of distance.

    layer: ``rtt`` or ``beta``; measurement: its id in the scan; raw: (N, N) ``[src, dst]``, seconds of a
    round trip or seconds per byte, in the requested order, NaN where missing, zero on the diagonal; may_be_directed:
    whether a pair's two directions may truly differ.
    """

    layer: str
    measurement: str
    raw: FloatMatrix
    may_be_directed: bool = False


def read_layers(scan: Scan, order: list[int]) -> list[Readings]:
    """The distances of a scan, RTT first; of several goodputs the first, which is the scan's primary one.

    Raises DocumentError for a scan that has neither, for a round trip that took no time, and for a reading so
    far below the others that it must be of another unit. (Readings far above them are slow links, and are named.)
    """
    found: list[tuple[str, Measurement, FloatMatrix]] = []
    for measurement in scan.measurements:
        if measurement.id == "rtt":
            values: FloatMatrix | None = getattr(scan.rtt_s, measurement.statistic, None)
            if values is None:
                raise DocumentError(
                    f"the scan's statistic {measurement.statistic!r} is not one of its matrices"
                )
            _check_round_trips(scan, values)
            found.insert(0, ("rtt", measurement, values))
        elif measurement.id in scan.goodput_bytes_per_s and not any(layer == "beta" for layer, _, _ in found):
            found.append(("beta", measurement, beta_of(scan.goodput_bytes_per_s[measurement.id])))
    if not found:
        raise DocumentError("the scan has no measurement rtt and no goodput, and a map needs one of them")
    readings = []
    for layer, measurement, values in found:
        raw = values[np.ix_(order, order)].copy()
        _check_one_unit([scan.hosts[i].name for i in order], layer, raw)
        np.fill_diagonal(raw, 0.0)
        may = layer != "rtt" or measurement.method == IMPORTED
        readings.append(Readings(layer=layer, measurement=measurement.id, raw=raw, may_be_directed=may))
    return readings


def beta_of(goodput_bytes_per_s: FloatMatrix) -> FloatMatrix:
    """(N, N) seconds per byte, 1 / goodput. A link that carried nothing has no distance: it is missing, NaN."""
    with np.errstate(divide="ignore", over="ignore"):
        beta = 1.0 / np.asarray(goodput_bytes_per_s)
    beta[np.isinf(beta)] = np.nan
    return beta


def _check_round_trips(scan: Scan, rtt_s: FloatMatrix) -> None:
    zero = (rtt_s == 0) & ~np.eye(len(rtt_s), dtype=bool)
    if zero.any():
        src, dst = np.argwhere(zero)[0].tolist()
        raise DocumentError(
            f"the round trip from {scan.hosts[src].name} to {scan.hosts[dst].name} is 0 s, and none takes no "
            f"time ({int(zero.sum())} such links): a link without a reading is null, not 0"
        )


def _check_one_unit(names: list[str], layer: str, raw: FloatMatrix) -> None:
    off = np.where(np.eye(len(raw), dtype=bool), np.nan, raw)
    if np.isnan(off).all():
        return
    middle = median(off[~np.isnan(off)])
    small = off < _LEAST_SHARE * middle
    if small.any():
        src, dst = np.argwhere(small)[0].tolist()
        what = "round trip" if layer == "rtt" else "time a byte (1 / goodput)"
        raise DocumentError(
            f"the {what} from {names[src]} to {names[dst]} is {off[src, dst]:.3g} s, and the median of all is "
            f"{middle:.3g} s ({int(small.sum())} such links): these are two units, give all in one"
        )


def make_layer(
    readings: Readings,
    part: FloatMatrix,
    fit: Embedding,
    where: list[int],
    hosts: Sequence[ScannedHost],
    options: EmbedOptions,
    *,
    outliers: Outliers | None = None,
) -> RttLayer | BetaLayer:
    """The layer of ``hosts`` from a fit of those at ``where`` (indices in the document's order).

    part: their readings. Where pairs of theirs are missing, how sure each link is gets written. ``outliers``
    are written into a layer of goodput only.
    """
    size = len(hosts)
    directions = Directions(distance=fit.distance_s)
    if readings.may_be_directed:
        directions = with_directions(part, fit.distance_s)
    distance = empty_matrix(size)
    distance[np.ix_(where, where)] = directions.distance
    coordinates: list[list[float]] = [[] for _ in range(size)]
    heights: list[float | None] = [None] * size
    for row, i in enumerate(where):
        coordinates[i] = [float(x) for x in fit.coordinates[row]]
        heights[i] = float(fit.heights_s[row])
    common: dict[str, Any] = {
        "coordinates": coordinates,
        "stress": fit.stress,
        "held_out": HeldOut(
            links=fit.held_out_pairs, median_relative_error=fit.held_out_median_relative_error
        ),
        "interval_factor": None,
        "method": options.method,
        "parameters": _parameters(fit, options),
    }
    if directions.from_back:
        links = [
            [hosts[where[src]].name, hosts[where[dst]].name] for src, dst in directions.from_back[:_LISTED]
        ]
        common |= {"one_direction": links, "one_direction_found": len(directions.from_back)}
    if _incomplete(part) and fit.interval_factor is not None:
        common["interval_factor"] = empty_matrix(size)
        common["interval_factor"][np.ix_(where, where)] = fit.interval_factor
    if readings.layer == "rtt":
        one_way = True if directions.many else None
        return RttLayer(distance_s=distance, heights_s=heights, one_way=one_way, **common)
    common["parameters"]["measurement"] = readings.measurement
    return BetaLayer(distance_s_per_byte=distance, heights_s_per_byte=heights, outliers=outliers, **common)


def _incomplete(part: FloatMatrix) -> bool:
    return bool((np.isnan(part) & np.isnan(part.T)).any())


def _parameters(fit: Embedding, options: EmbedOptions) -> dict[str, Any]:
    return {
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
    }
