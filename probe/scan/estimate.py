"""What a scan will cost before a packet leaves, and the pace at which it keeps below a rate. Arithmetic only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from netprobe.core.errors import InfeasibleError
from netprobe.core.units import exact_rate_text, rate_text
from netprobe.probe.methods.base import Cost
from netprobe.probe.rounds.chooser import Extent

HEADER_BYTES = 38
"""What IPv4 (20) and Ethernet with its check sum (18) add to each packet; a preamble and IPv6 are left out."""
USUAL_PACKET_BYTES = 1456
"""TCP payload and header of a full packet, for a method that does not count its packets."""
ROUND_S = 0.03
"""What a round takes in addition to its visits: replies on their way, the controller's own work."""
LONGEST_INTERVAL_S = 1.0
"""A rate cap stretches the time between probes no further than this."""


@dataclass(frozen=True, kw_only=True)
class PhaseEstimate:
    """One measurement of a scan."""

    measurement: str
    method: str
    rounds: int
    links: int
    """Visits: each pair is visited from both ends."""
    links_at_once: int
    seconds: float
    bytes: int
    """On the wire in both directions, with the headers of IPv4 and Ethernet."""
    bytes_per_s: float
    """While the fullest round runs, all links together."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Links measured at once, and the time between the probes of one link."""

    links_at_once: int
    interval_s: float


def full_mesh(hosts: int) -> Extent:
    """All links of ``hosts``: two passes of the circle method (``rounds.two_passes``)."""
    if hosts < 2:
        return Extent(rounds=0, links=0)
    return Extent(rounds=2 * (hosts - 1 + hosts % 2), links=hosts * (hosts - 1))


def wire_bytes(cost: Cost) -> int:
    """Bytes of one visit with the headers that ``Cost`` leaves out."""
    packets = cost.packets or -(-cost.bytes // USUAL_PACKET_BYTES)
    return cost.bytes + packets * HEADER_BYTES


def link_rate(cost: Cost) -> float:
    """Bytes a second that one link puts on the wire while it is visited, both directions together."""
    return wire_bytes(cost) / cost.seconds


def estimate_phase(
    measurement: str, method: str, cost: Cost, extent: Extent, *, links_at_once: int = 0
) -> PhaseEstimate:
    """What a phase costs when every host is up and no link has to be tried again."""
    fullest = -(-extent.links // extent.rounds) if extent.rounds else 0
    at_once = min(fullest, links_at_once or fullest)
    # A round with more links than may run at once is split; none is empty.
    rounds = min(extent.links, extent.rounds * -(-fullest // at_once)) if at_once else 0
    return PhaseEstimate(
        measurement=measurement,
        method=method,
        rounds=rounds,
        links=extent.links,
        links_at_once=at_once,
        seconds=rounds * (cost.seconds + ROUND_S),
        bytes=extent.links * wire_bytes(cost),
        bytes_per_s=at_once * link_rate(cost),
    )


def cut_short(estimate: PhaseEstimate, seconds: float) -> PhaseEstimate:
    """The same phase where it may take so long and no longer."""
    if estimate.seconds <= seconds:
        return estimate
    share = max(0.0, seconds) / estimate.seconds
    return replace(
        estimate,
        rounds=math.ceil(share * estimate.rounds),
        links=math.ceil(share * estimate.links),
        seconds=max(0.0, seconds),
        bytes=math.ceil(share * estimate.bytes),
    )


def pace_under(
    rate_bytes_per_s: float,
    costs: Sequence[tuple[str, Cost]],
    *,
    hosts: int,
    interval_s: float,
    links_at_once: int = 0,
    stretch: bool = True,
) -> Pace:
    """The most links at once, at most ``links_at_once`` (0: no cap), that stay below a rate together.

    ``costs`` are those of each measurement by its id at ``interval_s``. Where even one link of probes is too
    much its interval is stretched, unless ``stretch`` is false. Raises InfeasibleError when that is not
    enough, or for a measurement whose pace is not ours to set.
    """
    most = max(1, hosts // 2)
    most = min(most, links_at_once or most)
    interval = interval_s
    for id_, cost in costs:
        one = link_rate(cost)
        if one <= rate_bytes_per_s:
            most = min(most, math.floor(rate_bytes_per_s / one))
            continue
        needed = interval_s * one / rate_bytes_per_s
        if not (cost.paced and stretch) or needed > LONGEST_INTERVAL_S:
            least = one if not cost.paced else one * interval_s / LONGEST_INTERVAL_S
            raise InfeasibleError(
                f"--rate {exact_rate_text(rate_bytes_per_s)} is less than one link of {id_} needs "
                f"({rate_text(one)} at an interval of {interval_s:g} s): "
                + (
                    f"give {rate_text(least)} or more"
                    if stretch or not cost.paced
                    else "leave --interval out, or give a longer one"
                )
            )
        interval = max(interval, needed)
        most = 1
    return Pace(links_at_once=most, interval_s=interval)
