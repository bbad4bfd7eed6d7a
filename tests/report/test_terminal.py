from __future__ import annotations

import io
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from netprobe.core.documents.scan import Scan
from netprobe.pipeline import map_scan, plan_order
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome, ScanRun, build_outcome
from netprobe.report.terminal import (
    _shrink,
    fold_names,
    group_order,
    group_table,
    heat_map,
    order_text,
    scan_text,
)
from tests.documents import make_scan, rack_rtt, rack_scan
from tests.probe.conftest import hosts_named, visit


def printed(renderable: RenderableType, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(renderable)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_heat_map_is_in_group_order_and_marks_what_is_missing() -> None:
    rtt = rack_rtt((3, 3), seed=1)
    rtt[0, 4] = np.nan
    scan = make_scan(rtt)
    map_ = map_scan(scan)
    lines = printed(heat_map(scan, map_, width=100)).splitlines()
    names = [scan.hosts[i].name for i in group_order(map_)]
    assert [line.split()[0] for line in lines[:6]] == names
    row = lines[names.index("h0")]
    assert row.count("·") == 2
    near, far = lines[0][4:10], lines[0][10:16]
    assert "█" not in near and far.replace("·", "█") == "██████"


def test_a_number_whose_statistic_nobody_knows_is_called_none() -> None:
    scan = make_scan(rack_rtt((3, 3), seed=1))
    map_ = map_scan(scan)
    assert "RTT p10 from" in printed(heat_map(scan, map_, width=100))
    for readings, what in ((1, "RTT from"), (7, "RTT p10 from")):
        first = scan.measurements[0].model_copy(update={"parameters": {"readings_per_link": readings}})
        imported = scan.model_copy(update={"measurements": [first]})
        assert what in printed(heat_map(imported, map_, width=100))


def test_a_large_heat_map_fits_its_width() -> None:
    scan = make_scan(rack_rtt((20, 20), seed=2), visits=False)
    map_ = map_scan(scan)
    text = printed(heat_map(scan, map_, width=60), width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert "median of" in " ".join(text.split())


def test_every_row_of_a_shrunken_heat_map_and_every_cut_name_has_its_dots() -> None:
    scan = make_scan(rack_rtt((20, 20), seed=2), visits=False)
    long = scan.model_copy(
        update={"hosts": [h.model_copy(update={"name": f"{h.name}.rack17.example.com"}) for h in scan.hosts]}
    )
    for one, width, all_dotted in ((scan, 60, True), (long, 60, True), (long, 200, False)):
        lines = printed(heat_map(one, map_scan(one), width=width), width=width).splitlines()
        rows = [line for line in lines if line.startswith("h")]
        names = [row.split()[0] for row in rows]
        assert len(rows) > 8 and all(name.endswith("..") for name in names) and len(set(names)) == len(names)
        assert max(map(len, lines)) <= width and (len(rows) < 40) is all_dotted


def test_groups_and_order_are_told() -> None:
    scan, _ = rack_scan((3, 3), seed=3)
    map_ = map_scan(scan)
    table = printed(group_table(map_))
    assert all(host.name in table for host in scan.hosts)
    text = order_text(plan_order(map_))
    assert "before, 2 after" in text
    assert text.startswith(f"order, rank 0 first: {scan.hosts[0].name} ")
    assert "6 hosts, 30 of 30 links" in scan_text(scan)


def test_long_lists_are_folded() -> None:
    assert fold_names([str(i) for i in range(20)], most=3) == "0 1 2 .. and 17 more"


def test_lists_of_a_large_fleet_are_shortened_and_told_to_be_so() -> None:
    scan, _ = rack_scan((3, 3), seed=3)
    map_ = map_scan(scan)
    plan = plan_order(map_)
    names = [f"node{i}" for i in range(490)]
    text = order_text(plan.model_copy(update={"order": names}))
    assert ".. and 426 more (all 490 in the plan)" in text and "node100" not in text
    assert "in the plan" not in order_text(plan)
    (group, *_) = map_.groups
    many = map_.model_copy(update={"groups": [group.model_copy(update={"id": f"g{i}"}) for i in range(490)]})
    table = printed(group_table(many), width=200)
    assert len(table.splitlines()) <= 70 and "426 more groups, all in the map" in table


def test_a_cell_of_a_shrunken_heat_map_is_the_median_of_what_is_known() -> None:
    rng = np.random.default_rng(1)
    for n, step in ((7, 2), (9, 3), (5, 4)):
        cells = np.where(rng.random((n, n)) < 0.4, np.nan, rng.random((n, n)))
        for (i, j), found in np.ndenumerate(_shrink(cells, step)):
            block = cells[i * step : (i + 1) * step, j * step : (j + 1) * step]
            known = block[~np.isnan(block)]
            assert found == np.median(known) if known.size else np.isnan(found)


def scanned(hosts: dict[str, str], silent: set[tuple[str, str]]) -> Scan:
    """A scan of hosts of these statuses, in which these links (src, dst) got no answer."""
    names = list(hosts)
    up = [i for i, name in enumerate(names) if hosts[name] == "ok"]
    visits = [
        visit(i, j, [], sent=9, reason=f"no answer from {names[j]}")
        if (names[i], names[j]) in silent
        else visit(i, j, [1e-4, 1.1e-4])
        for i, j in itertools.permutations(up, 2)
    ]
    outcomes = [
        HostOutcome(host=host, status=hosts[host.name], reason=None if hosts[host.name] == "ok" else "gone")  # type: ignore[arg-type]
        for host in hosts_named(*names)
    ]
    options = ScanOptions()
    return build_outcome(
        outcomes,
        visits,
        options,
        measurements=[Stamp(options).measurement],
        run=ScanRun(rounds=1, duration_s=1.0),
    ).scan


def both_ways(*pairs: tuple[str, str]) -> set[tuple[str, str]]:
    return {ends for one, other in pairs for ends in ((one, other), (other, one))}


def test_a_silent_host_is_named_once_and_its_peers_are_counted() -> None:
    names = [f"h{i}" for i in range(16)]
    scan = scanned(dict.fromkeys(names, "ok"), both_ways(*(("h7", name) for name in names if name != "h7")))
    assert {host.status for host in scan.hosts} == {"partial"}  # the document keeps each of them
    _first, *lines = scan_text(scan).splitlines()
    assert lines == [
        "h7: no reading with any of 15 hosts: no answer from h7",
        "15 other hosts: partial, and lacking nothing but that",
    ]


def test_what_is_missing_besides_is_still_told() -> None:
    hosts = dict.fromkeys([f"h{i}" for i in range(8)], "ok") | {"x": "unreachable", "y": "unreachable"}
    silent = both_ways(("h1", "h2"), *(("h5", f"h{i}") for i in (0, 1, 2, 3, 4)))
    lines = scan_text(scanned(hosts, silent)).splitlines()[1:]
    assert lines[0] == "x, y: unreachable: gone"
    assert lines[1].startswith("h5: no reading with h0, h1, h2 and 2 more, of 7 hosts: ")
    assert lines[2].startswith("h1 and h2: no reading between them: no answer from h")
    assert lines[3:] == ["3 other hosts: partial, and lacking nothing but that"]


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] < pair[1])))
def test_every_pair_without_a_reading_has_one_of_its_hosts_named(pairs: set[tuple[int, int]]) -> None:
    names = [f"h{i}" for i in range(6)]
    if len(pairs) == 15:
        return  # nothing was measured at all
    silent = both_ways(*((names[i], names[j]) for i, j in pairs))
    lines = scan_text(scanned(dict.fromkeys(names, "ok"), silent)).splitlines()[1:]
    heads = " ".join(line.split(":")[0] for line in lines if "other host" not in line).split()
    assert all(names[i] in heads or names[j] in heads for i, j in pairs)
    assert len(lines) <= 6 and bool(lines) == bool(pairs)
