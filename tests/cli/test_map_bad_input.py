"""`netprobe map` on matrices that are hardly any: one clear line of refusal, or the right answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netprobe.cli.commands.mapping import comparison_lines
from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.core.documents.matrix import FloatMatrix
from tests.documents import make_scan, rack_rtt

Capture = pytest.CaptureFixture[str]
Change = Callable[[FloatMatrix], None]


def mapped(folder: Path, rtt: FloatMatrix, capsys: Capture, *args: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON it printed, and what it said on stderr."""
    write_document(make_scan(rtt, visits=False), folder / "scan.json")
    capsys.readouterr()
    code = run(["map", str(folder / "scan.json"), "--json", "--no-compare", *args])
    said = capsys.readouterr()
    if code:
        assert said.err.count("\n") == 1 and "Traceback" not in said.err
        assert json.loads(said.out)["exit_code"] == code
        assert not (folder / "map.json").exists()
    return code, json.loads(said.out or "{}"), said.err


def sizes(result: dict[str, Any]) -> list[int]:
    return sorted(len(group["hosts"]) for group in result["groups"])


def nothing(rtt: FloatMatrix) -> None:
    rtt[:] = np.nan


def zero(rtt: FloatMatrix) -> None:
    rtt[1, 2] = 0.0


def small(rtt: FloatMatrix) -> None:
    rtt[1, 2] *= 1e-6
    rtt[4, 6] *= 1e-6


@pytest.mark.parametrize(
    ("change", "args", "code", "says"),
    [
        (nothing, (), 4, "no measured link: there is nothing to map"),
        (zero, (), 2, "from h1 to h2 is 0 s, and none takes no time (1 such links)"),
        (small, (), 2, "(2 such links): these are two units, give all in one"),
        (lambda rtt: None, ("--k", "9"), 2, "cannot form 9 groups of 8 hosts: give 1 to 8 groups"),
        (lambda rtt: None, ("--groups", "sqrt", "--k", "9"), 2, "cannot form 9 groups of 8 hosts"),
    ],
)
def test_what_cannot_be_mapped_is_refused_in_one_line(
    tmp_path: Path, capsys: Capture, change: Change, args: tuple[str, ...], code: int, says: str
) -> None:
    rtt = rack_rtt((4, 4), seed=1)
    change(rtt)
    got, _, err = mapped(tmp_path, rtt, capsys, *args)
    assert got == code and says in err


@pytest.mark.parametrize("cell", ["-0.0001", "NaN", "Infinity", '"x"', "[1]"])
def test_a_cell_that_is_no_reading_is_refused_in_one_line(tmp_path: Path, capsys: Capture, cell: str) -> None:
    path = tmp_path / "scan.json"
    write_document(make_scan(rack_rtt((2, 2), seed=1), visits=False), path)
    data = json.loads(path.read_text())
    data["rtt_s"]["p10"][0][1] = "CELL"
    path.write_text(json.dumps(data).replace('"CELL"', cell))
    assert run(["map", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(path) in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("size", "locality"), [(1, "cannot_tell"), (2, "cannot_tell"), (3, "none"), (9, "none")]
)
def test_hosts_all_as_far_apart_are_one_group(
    tmp_path: Path, capsys: Capture, size: int, locality: str
) -> None:
    rtt = np.full((size, size), 1e-4)
    np.fill_diagonal(rtt, np.nan)
    code, result, _ = mapped(tmp_path, rtt, capsys)
    assert code == 0 and sizes(result) == [size]
    assert result["verdict"]["locality"] == locality
    distance = np.array(json.loads((tmp_path / "map.json").read_text())["layers"]["rtt"]["distance_s"])
    np.testing.assert_allclose(distance, np.where(np.eye(size, dtype=bool), 0.0, 1e-4), rtol=1e-6)


def test_three_hosts_are_too_few_to_tell(tmp_path: Path, capsys: Capture) -> None:
    code, result, _ = mapped(tmp_path, rack_rtt((2, 1), seed=1), capsys)
    assert code == 0 and result["verdict"]["locality"] == "cannot_tell"


def test_as_many_groups_as_hosts_are_formed(tmp_path: Path, capsys: Capture) -> None:
    code, result, _ = mapped(tmp_path, rack_rtt((4, 4), seed=1), capsys, "--k", "8")
    assert code == 0 and sizes(result) == [1] * 8


def test_an_asymmetric_matrix_is_mapped_and_its_links_are_listed(tmp_path: Path, capsys: Capture) -> None:
    rtt = rack_rtt((5, 5), seed=2)
    rtt[2, 7] *= 4
    code, result, _ = mapped(tmp_path, rtt, capsys)
    assert code == 0 and sizes(result) == [5, 5]
    assert [(link["src"], link["dst"]) for link in result["outliers"]["asymmetric"]] == [("h2", "h7")]


def test_a_few_cells_a_million_times_the_others_hide_no_rack(tmp_path: Path, capsys: Capture) -> None:
    rtt = rack_rtt((6, 6, 4), seed=3)
    for one, other in ((0, 1), (2, 9), (7, 3)):
        rtt[one, other] *= 1e6
        rtt[other, one] *= 1e6
    code, result, _ = mapped(tmp_path, rtt, capsys)
    assert code == 0 and sizes(result) == [4, 6, 6] and result["verdict"]["locality"] == "found"
    found = {tuple(link["hosts"]) for link in result["outliers"]["links"]}
    assert found == {("h0", "h1"), ("h2", "h9"), ("h3", "h7")}
    distance = np.array(json.loads((tmp_path / "map.json").read_text())["layers"]["rtt"]["distance_s"])
    assert distance[0, 1] < 2e-4 and distance[2, 9] < 5e-4


def test_of_two_equal_islands_nobody_can_tell_and_who_has_no_place_is_said(
    tmp_path: Path, capsys: Capture
) -> None:
    rtt = rack_rtt((4, 4), seed=1)
    rtt[:4, 4:] = rtt[4:, :4] = np.nan
    code, result, _ = mapped(tmp_path, rtt, capsys)
    assert code == 0 and result["unplaced"] == ["h4", "h5", "h6", "h7"]
    assert result["verdict"]["locality"] == "cannot_tell"
    assert "no measured link joins 2 sets of 4 hosts each" in result["verdict"]["text"]
    assert run(["map", str(tmp_path / "scan.json"), "--force", "--no-compare"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "not placed, since no measured link ties them to the other 4 hosts: h4 h5 h6 h7" in lines
    assert run(["plan", "order", str(tmp_path / "map.json")]) == 0
    assert "left out, since they are not placed on the map: h4 h5 h6 h7" in capsys.readouterr().out


def test_one_is_one_and_equal_sizes_are_said_once() -> None:
    rows = [
        {"method": "natural", "k": 1, "smallest": 6, "largest": 6, "contrast": None},
        {"method": "sqrt", "k": 2, "smallest": 1, "largest": 5, "contrast": 1.5},
        {"method": "sqrt", "k": 1, "smallest": 1, "largest": 1, "contrast": None},
    ]
    assert comparison_lines({"comparison": rows}) == [
        "natural: 1 group of 6 hosts, no contrast",
        "sqrt: 2 groups of 1 to 5 hosts, 1.50x nearer inside",
        "sqrt: 1 group of 1 host, no contrast",
    ]
