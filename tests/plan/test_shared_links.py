"""A collective's time where hosts share uplinks, against sums done by hand."""

from __future__ import annotations

import pytest

from netprobe.core.capacity import Resource
from netprobe.plan.shared_links import path, pooled_rates, worst_uplink_crossings

GROUPS = [["a", "b"], ["c", "d"]]


def resource(kind: str, name: str, rate: float | None) -> Resource:
    return Resource(id=f"{kind}:{name}", kind=kind, bytes_per_s=rate, shared_by=[])


def test_crossings_of_the_worst_uplink_are_counted_round_the_ring() -> None:
    assert worst_uplink_crossings(["a", "b", "c", "d"], GROUPS) == 1
    assert worst_uplink_crossings(["a", "c", "b", "d"], GROUPS) == 2
    assert worst_uplink_crossings(["b", "c", "d", "a"], GROUPS) == 1
    assert worst_uplink_crossings(["a", "b"], [["a", "b"]]) == 0


def test_a_transfer_passes_both_uplinks_or_none() -> None:
    of = {name: str(g) for g, names in enumerate(GROUPS) for name in names}
    assert path("a", "b", of) == ["tx:a", "rx:b"]
    assert path("a", "d", of) == ["tx:a", "rx:d", "up:0", "down:1"]


def test_rates_that_no_test_tells_apart_are_one() -> None:
    rates = pooled_rates(
        [resource("up", str(i), rate) for i, rate in enumerate((100.0, 101.0, 98.0, 50.0, None))]
    )
    assert rates == {"up:0": 99.0, "up:1": 99.0, "up:2": 99.0, "up:3": 50.0}
    assert pooled_rates([resource("up", "0", None)]) == {}
