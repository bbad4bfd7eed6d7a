"""The outliers of a scan, as records and text of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.map import AsymmetricLink, Map, Outliers, RttLayer, SlowHost, SlowLink
from netprobe.core.numeric.distances import is_directed
from netprobe.core.units import count, seconds_text

if TYPE_CHECKING:
    from netprobe.cluster.anomalies.outliers import OutlierHost

_LISTED = 100


def outliers_of(
    raw_distance: NDArray[np.float64], labels: NDArray[np.int64], names: Sequence[str], *, layer: str = "rtt"
) -> Outliers:
    """Outlier hosts, outlier links and asymmetric links of (N, N) ``[src, dst]`` distances, by name.

    layer: ``rtt``, seconds of a round trip; ``beta``, seconds per byte.
    """
    from netprobe.cluster import find_outliers  # whoever only shows what was found does not wait for it

    found = find_outliers(raw_distance, labels)
    hosts = [
        SlowHost(
            host=names[slow.host],
            ratio=slow.ratio,
            slower=slow.slower,
            links=slow.links,
            **_excess(names[slow.host], slow, layer),
        )
        for slow in found.hosts
    ]
    return Outliers(
        hosts=hosts,
        links=[
            SlowLink(hosts=[names[link.first], names[link.second]], ratio=link.ratio)
            for link in found.links[:_LISTED]
        ],
        links_found=len(found.links),
        asymmetric=[
            AsymmetricLink(src=names[link.src], dst=names[link.dst], ratio=link.ratio)
            for link in found.asymmetric[:_LISTED]
        ],
        asymmetric_found=len(found.asymmetric),
    )


def _excess(name: str, slow: OutlierHost, layer: str) -> dict[str, Any]:
    """The excess under the key of its unit, and the sentence."""
    times = f"{slow.ratio:.1f}x what its place explains"
    where = f"{slow.slower} of {count(slow.links, 'link')} (a slow card, a busy host, or one far away)"
    if layer == "rtt":
        text = f"{name} is slow towards everybody: {times}, {seconds_text(slow.excess)} more on {where}"
        return {"excess_s": slow.excess, "text": text}
    text = f"{name} has little goodput towards everybody: a byte takes {times}, on {where}"
    return {"excess_s_per_byte": slow.excess, "text": text}


def direction_lines(map_: Map) -> list[str]:
    """What a map says of directions that are kept apart; nothing where all distances are symmetric."""
    lines = []
    for name, layer in map_.layers.named().items():
        if not is_directed(layer.distance):
            continue
        what = "goodput" if name == "beta" else "latency"
        text = f"{what} differs by direction, and orders are priced by direction"
        if isinstance(layer, RttLayer) and layer.one_way:
            text += "; so many pairs differ that these are one-way times, and no round trips"
        lines.append(text)
        if layer.one_direction:
            found = layer.one_direction_found or len(layer.one_direction)
            first = ", ".join(f"{src} to {dst}" for src, dst in layer.one_direction[:5])
            more = " .." if found > 5 else ""
            lines.append(
                f"{count(found, 'link')} not measured, taken to be as the way back is: {first}{more}"
            )
    return lines


def outlier_lines(outliers: Outliers | None, *, most: int = 5) -> list[str]:
    """A line for each slow host, one for the slow links and one for the asymmetric ones, if any."""
    if outliers is None:
        return []
    lines = [host.text for host in outliers.hosts[:most]]
    if len(outliers.hosts) > most:
        lines.append(f"and {count(len(outliers.hosts) - most, 'more slow host')}")
    if outliers.links:
        worst = outliers.links[0]
        lines.append(
            f"{count(outliers.links_found, 'slow link')}; worst: {' - '.join(worst.hosts)}, "
            f"{worst.ratio:.1f}x what its ends explain"
        )
    if outliers.asymmetric:
        link = outliers.asymmetric[0]
        lines.append(
            f"{count(outliers.asymmetric_found, 'asymmetric link')}; most: {link.src} to {link.dst}, "
            f"{link.ratio:.1f}x the way back"
        )
    return lines
