"""Which candidate is surely faster: both run on one network, so that their errors are not independent."""

from __future__ import annotations

from collections.abc import Mapping

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.plan.auto.candidates import Candidate, Groups
from netprobe.plan.auto.choice import Chooser
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.predicting import interval_of
from tests.maps import made_capacity, made_map

SIZE = 1_000_000


def read_within(
    map_: Map, share: float, of: Mapping[str, float] | None = None, uplink: float = 1e8
) -> Capacity:
    """Every rate with an interval of ``share`` to both sides; ``of``: another share, by the kind of resource."""
    read = made_capacity(map_, host=1.25e9, uplink=uplink)
    made = []
    for one in read.resources:
        own, rate = (of or {}).get(one.kind, share), one.bytes_per_s or 0.0
        ends = {"low_bytes_per_s": rate / (1 + own), "high_bytes_per_s": rate * (1 + own)}
        made.append(one.model_copy(update=ends))
    return read.model_copy(update={"resources": made})


def chooser(map_: Map, capacity: Capacity, *candidates: Candidate) -> Chooser:
    hosts = [host.name for host in map_.hosts]
    return Chooser(known=known_network(map_, hosts, capacity), candidates=candidates)


def test_an_error_that_both_times_share_leaves_nothing_open() -> None:
    map_ = made_map([8, 8])
    hosts = tuple(host.name for host in map_.hosts)
    ring, flat = Candidate(algorithm="chunked-ring", order=hosts), Candidate(algorithm="flat", order=hosts)
    found = chooser(map_, read_within(map_, 0.2, uplink=1e10), ring, flat)
    # Both send 15/8 of the buffer over the same hosts; flat aggregation has fewer steps.
    large = 4 * SIZE
    one, other = (interval_of(found.known, candidate, large) for candidate in (flat, ring))
    assert not one.surely_below(other) and one.time_s * 1.1 < other.time_s
    assert found.surely(flat, ring, large) and not found.surely(ring, flat, large)
    assert found.decide(large).candidate == flat and found.decide(large).reason == "faster"


def test_what_depends_on_another_resource_stays_open() -> None:
    map_ = made_map([4, 4])
    hosts = tuple(host.name for host in map_.hosts)
    groups = Groups(name="natural", ranks=((0, 1, 2, 3), (4, 5, 6, 7)))
    ring = Candidate(algorithm="chunked-ring", order=hosts)
    levels = Candidate(algorithm="2lha", order=hosts, groups=groups, chunk_bytes=4 << 20)
    size = 50 * SIZE
    # 2LHA loads hosts as the ring does, and uplinks less: by uplinks that are read well it is the faster one ..
    sure = chooser(map_, read_within(map_, 0.02, uplink=5e8), ring, levels)
    assert sure.time_s(levels, size) * 1.1 < sure.time_s(ring, size) and sure.surely(levels, ring, size)
    # .. and of uplinks that may be twice as wide, on which the two would be equal, it is not.
    wide = {"group_up": 1.5, "group_down": 1.5}
    open_ = chooser(map_, read_within(map_, 0.02, wide, uplink=5e8), ring, levels)
    assert open_.time_s(levels, size) == sure.time_s(levels, size)
    assert not open_.surely(levels, ring, size)


def test_lower_bounds_are_never_a_win_where_intervals_overlap() -> None:
    map_ = made_map([8, 8])
    hosts = tuple(host.name for host in map_.hosts)
    ring, flat = Candidate(algorithm="chunked-ring", order=hosts), Candidate(algorithm="flat", order=hosts)
    least = [f"{kind}:{name}" for kind in ("tx", "rx") for name in hosts]
    found = chooser(map_, made_capacity(map_, host=1.25e9, uplink=1e10, at_least=least), ring, flat)
    one, other = (interval_of(found.known, candidate, 4 * SIZE) for candidate in (flat, ring))
    assert one.time_s * 1.1 < other.time_s and not one.surely_below(other)
    assert not found.surely(flat, ring, 4 * SIZE)
