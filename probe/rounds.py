"""Rounds of disjoint pairs: the circle method, that is a 1-factorisation of the complete graph.

N hosts (even) give N - 1 rounds of N / 2 pairs; odd N gives N rounds with one idle host in each. One pass
holds each unordered pair once; the second pass is the first with the ends exchanged, so the two visits of a
pair lie a whole pass apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Link:
    """``src`` probes ``dst``; both are indices into the list of hosts."""

    src: int
    dst: int


def one_pass(hosts: Sequence[int]) -> list[list[Link]]:
    """Each unordered pair of ``hosts`` once, no host twice in a round.

    Which end probes alternates, so that in a pass every host probes about as often as it is probed.
    """
    ring: list[int | None] = list(hosts)
    if len(ring) < 2:
        return []
    if len(ring) % 2:
        ring.append(None)
    rounds = []
    for turn in range(len(ring) - 1):
        half = len(ring) // 2
        links = []
        for place in range(half):
            one, other = ring[place], ring[-1 - place]
            if one is None or other is None:
                continue
            exchanged = turn % 2 if place == 0 else place % 2
            links.append(Link(other, one) if exchanged else Link(one, other))
        rounds.append(links)
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def two_passes(hosts: Sequence[int]) -> list[list[Link]]:
    """Each ordered pair once: a pass, then the same pass with the roles exchanged."""
    first = one_pass(hosts)
    return first + [[Link(link.dst, link.src) for link in links] for links in first]
