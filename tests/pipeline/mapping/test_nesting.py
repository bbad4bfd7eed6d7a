"""The levels of a map's groups, as switches above them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netprobe.core.documents.map import Map
from netprobe.pipeline import map_scan
from netprobe.pipeline.exporting import export_topology
from netprobe.pipeline.mapping.nesting import nested_switches
from tests.documents import make_scan


@pytest.fixture(scope="module")
def rooms() -> Map:
    """Six racks of six in three rows, and one host far from all of them, first by name."""
    rng = np.random.default_rng(0)
    rack = np.repeat(np.arange(6), 6)
    row = rack // 2
    rtt = np.where(rack[:, None] == rack, 100e-6, np.where(row[:, None] == row, 250e-6, 500e-6))
    rtt = rtt + rng.gamma(2.0, 2e-6, size=rtt.shape)
    whole = np.full((37, 37), 5e-3)
    whole[1:, 1:] = rtt
    np.fill_diagonal(whole, np.nan)
    return map_scan(make_scan(whole, names=[f"h{at:02}" for at in range(37)]))


def test_rows_are_above_their_racks_also_beside_a_far_host(rooms: Map) -> None:
    above = nested_switches(rooms)
    group_of = {host: group.id for group in rooms.groups for host in group.hosts}
    racks = [group_of[f"h{1 + 6 * at:02}"] for at in range(6)]
    assert len(set(racks)) == 6
    rows = [above[rack] for rack in racks]
    assert rows[0] == rows[1] and rows[2] == rows[3] and rows[4] == rows[5] and len(set(rows)) == 3
    assert group_of["h00"] not in above
    text = export_topology(rooms).text
    assert f"SwitchName={rows[0]} Switches=" in text and text.count("SwitchName=") == 11


@pytest.mark.parametrize(
    "levels",
    [
        None,
        [],
        [{}, {}],
        [{}, {"of_groups": "x"}],
        [{}, {"of_groups": [0, 0]}],
        [{}, {"of_groups": [0, 0, 1, 1, 2, 9]}],
        [{}, {"of_groups": [0, 0, 1, 1, 2, -1]}],
        [{}, {"of_groups": [True] * 6}],
        [{}, {"of_groups": [0] * 6}],
        [{}] * 99,
    ],
)
def test_levels_that_do_not_fit_are_left_out(rooms: Map, levels: Any) -> None:
    evidence = {**rooms.grouping.evidence, "levels": levels}
    strange = rooms.model_copy(update={"grouping": rooms.grouping.model_copy(update={"evidence": evidence})})
    assert nested_switches(strange) == {}
    assert "SwitchName=netprobe Switches=" in export_topology(strange).text
