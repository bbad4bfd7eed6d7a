"""Costs of links from a map: half the round trip or the one-way time, and the time of bytes by goodput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.plan.bounds.matrices import MOST_COST, impossible
from netprobe.plan.costs import LinkCost

MESSAGE_BYTES = 1_000_000
"""The message whose time is the cost of a link where only goodput was measured, and no size is requested."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """Seconds of links [src, dst] over all hosts of a document, one way; NaN where a host has no place."""

    alpha_s: FloatMatrix
    beta_s_per_byte: FloatMatrix | None = None
    size_bytes: int | None = None

    def without_direction(self) -> Links:
        """The same links, each as fast as the faster of its two directions."""
        alpha, beta = self.alpha_s, self.beta_s_per_byte
        return Links(
            alpha_s=np.minimum(alpha, alpha.T),
            beta_s_per_byte=None if beta is None else np.minimum(beta, beta.T),
            size_bytes=self.size_bytes,
        )

    def among(self, hosts: Sequence[int]) -> LinkCost:
        """The costs among ``hosts``. Raises InputError where one is missing."""
        at = np.ix_(hosts, hosts)
        beta = self.beta_s_per_byte
        return LinkCost(
            alpha_s=self.alpha_s[at],
            beta_s_per_byte=None if beta is None else beta[at],
            size_bytes=0.0 if self.size_bytes is None else float(self.size_bytes),
        )

    def permuted(self, hosts: Sequence[int]) -> Links:
        """The same links with ``hosts[i]`` (an index) at place i."""
        at = np.ix_(hosts, hosts)
        beta = self.beta_s_per_byte
        return Links(
            alpha_s=self.alpha_s[at],
            beta_s_per_byte=None if beta is None else beta[at],
            size_bytes=self.size_bytes,
        )


def links_of(document: Map, size_bytes: int | None = None) -> Links:
    """Costs [src, dst] of the map's links: a latency, and with a size the time of its bytes by goodput.

    The latency is half the denoised round trip, or the one-way time where the map has those (`RttLayer.hop_s`).
    Where the groups are those of goodput the latency is not known and taken for 0, and a size of
    `MESSAGE_BYTES` is meant unless another is given. Raises InputError for a size and a map without goodput,
    and for a distance above `MOST_COST`.
    """
    for name, layer in document.layers.named().items():
        _check_distances(name, layer.distance, [host.name for host in document.hosts])
    beta = document.layers.beta
    if document.grouped_by != "rtt":
        size = MESSAGE_BYTES if size_bytes is None else size_bytes
        # 0 where there is a place, NaN where there is none.
        return Links(
            alpha_s=document.distance * 0.0, beta_s_per_byte=document.distance.copy(), size_bytes=size
        )
    rtt = document.layers.rtt
    assert rtt is not None  # the map's groups are those of RTT
    if size_bytes is None:
        return Links(alpha_s=rtt.hop_s)
    if beta is None:
        raise InputError(
            "a size was given, and the map knows no goodput: scan with --measure rtt,goodput, or leave --size out"
        )
    return Links(alpha_s=rtt.hop_s, beta_s_per_byte=beta.distance.copy(), size_bytes=size_bytes)


def one_way_cost_s(document: Map) -> FloatMatrix:
    """Cost [src, dst] of a hop of a ring, in seconds; NaN for unplaced hosts (`links_of` without a size requested)."""
    links = links_of(document)
    if links.beta_s_per_byte is None or links.size_bytes is None:
        return links.alpha_s
    return links.beta_s_per_byte * links.size_bytes


def message_bytes(document: Map, size_bytes: int | None = None) -> int | None:
    """Size of the buffer whose time is priced, ``size_bytes`` being requested; None: latency alone is."""
    return links_of(document, size_bytes).size_bytes


def _check_distances(layer: str, distance: FloatMatrix, names: Sequence[str]) -> None:
    """Refuse a map whose distances no arithmetic bears; a missing one may be of a host without a place."""
    bad = np.argwhere(impossible(distance) & ~np.isnan(distance))
    if len(bad):
        src, dst = bad[0].tolist()
        raise InputError(
            f"the map's distance ({layer}) from {names[src]} to {names[dst]} is {distance[src, dst]:g}: "
            f"at most {MOST_COST:g} is needed"
        )
