"""Which readings there are behind a map, and what orders may be judged by."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.document import write_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning import held_out
from netprobe.pipeline.planning.held_out import RAW_SHARE, readings_in_folder, readings_of
from tests.documents import make_scan, rack_rtt

SIZE = 10
PAIRS = SIZE * (SIZE - 1) // 2


@cache
def scan_and_map(*, without: int = 0, seed: int = 1) -> tuple[Scan, Map]:
    """Ten hosts in two racks; ``without`` pairs lack one of their readings, each of hosts of its own."""
    rtt = rack_rtt([5, 5], seed=seed)
    for pair in range(without):
        rtt[2 * pair, 2 * pair + 1] = np.nan
    scan = make_scan(rtt, visits=False)
    return scan, map_scan(scan)


def test_complete_readings_make_two_folds_of_all_pairs() -> None:
    scan, map_ = scan_and_map()
    readings = readings_of(map_, scan)
    assert len(readings.folds) == 2 and readings.pairs == PAIRS == len(readings.noise)
    assert "lack" not in readings.text
    # Differences in the logarithm, the sign left out, and sorted, of the two readings of each pair.
    rtt = scan.rtt_s.p10
    upper = np.triu_indices(SIZE, 1)
    assert readings.noise == pytest.approx(np.sort(np.abs(np.log(rtt[upper] / rtt.T[upper]))), rel=1e-8)


def test_the_seed_says_which_reading_is_held_out() -> None:
    scan, map_ = scan_and_map()
    first, same, other = (readings_of(map_, scan, seed=seed).folds[0].unseen.alpha_s for seed in (1, 1, 2))
    assert np.array_equal(first, same) and not np.array_equal(first, other)
    # By default it is 0.
    assert np.array_equal(
        readings_of(map_, scan).folds[0].unseen.alpha_s,
        readings_of(map_, scan, seed=0).folds[0].unseen.alpha_s,
    )
    both = readings_of(map_, scan).folds
    assert not np.array_equal(both[0].unseen.alpha_s, both[1].unseen.alpha_s)


@pytest.mark.parametrize(("lacking", "judged"), [(2, True), (3, False)])
def test_at_most_a_twentieth_of_the_pairs_may_lack_a_reading(lacking: int, judged: bool) -> None:
    scan, map_ = scan_and_map(without=lacking)
    readings = readings_of(map_, scan)
    assert bool(readings.folds) == judged and readings.pairs == PAIRS - lacking
    assert f"{lacking} of {PAIRS} pairs" in readings.text
    assert len(readings.noise) == (readings.pairs if judged else 0)
    assert readings.text.startswith("cannot tell") != judged


def test_what_is_searched_is_the_map_with_a_tenth_of_the_lower_readings() -> None:
    scan, map_ = scan_and_map()
    search = readings_of(map_, scan).search
    assert search is not None and readings_of(map_, scan).raw_share == RAW_SHARE
    off = ~np.eye(SIZE, dtype=bool)
    distance = np.array(map_.layers.named()["rtt"].distance)
    raw: FloatMatrix = np.fmin(scan.rtt_s.p10, scan.rtt_s.p10.T)
    scaled = raw * distance[off].mean() / raw[off].mean()
    expected = (distance + RAW_SHARE * scaled) / (1 + RAW_SHARE) / 2
    assert search.alpha_s[off] == pytest.approx(expected[off], rel=1e-12)
    assert search.alpha_s[off].mean() == pytest.approx(distance[off].mean() / 2)


def test_nothing_is_held_out_of_many_hosts_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    scan, map_ = scan_and_map()
    assert readings_of(map_, scan, held_out=False).folds == ()
    monkeypatch.setattr(held_out, "MOST_HOSTS", SIZE)
    assert readings_of(map_, scan).folds
    monkeypatch.setattr(held_out, "MOST_HOSTS", SIZE - 1)
    few = readings_of(map_, scan)
    assert few.folds == () and few.search is not None and f"above {SIZE - 1} hosts" in few.text
    assert readings_of(map_, scan, held_out=True).folds


def test_two_hosts_have_no_orders_to_tell_apart() -> None:
    scan = make_scan(rack_rtt([2], seed=1), visits=False)
    assert "fewer than three" in readings_of(map_scan(scan), scan).text
    three = make_scan(rack_rtt([3], seed=1), visits=False)
    assert "fewer than three" not in readings_of(map_scan(three), three).text


def test_a_scan_of_other_hosts_is_refused() -> None:
    _, map_ = scan_and_map()
    with pytest.raises(DocumentError, match="other hosts"):
        readings_of(map_, make_scan(rack_rtt([5, 4], seed=1), visits=False))


def test_the_scan_of_a_map_is_found_in_its_folder_under_any_name(tmp_path: Path) -> None:
    scan, map_ = scan_and_map()
    other, _ = scan_and_map(seed=2)
    write_document(map_, tmp_path / "map.json")
    at = tmp_path / "map.json"
    assert readings_in_folder(at, map_, None).text.startswith(
        "not known: no scan.json is in the map's folder"
    )
    write_document(other, tmp_path / "scan.json")
    assert "not the scan that the map was made from" in readings_in_folder(at, map_, None).text
    with pytest.raises(DocumentError, match="not the scan"):
        readings_in_folder(at, map_, tmp_path / "scan.json")
    write_document(scan, tmp_path / "old-scan-2.json")
    found = readings_in_folder(at, map_, None, seed=3, held_out=True)
    named = readings_in_folder(at, map_, tmp_path / "old-scan-2.json", seed=3)
    for readings in (found, named):
        assert np.array_equal(
            readings.folds[0].unseen.alpha_s, readings_of(map_, scan, seed=3).folds[0].unseen.alpha_s
        )
    assert readings_in_folder(at, map_, None, held_out=False).folds == ()
    assert np.array_equal(
        readings_in_folder(at, map_, None).folds[0].unseen.alpha_s,
        readings_of(map_, scan, seed=0).folds[0].unseen.alpha_s,
    )
