"""``netprobe plan order`` as a user types it: algorithms, sizes, the scan in the map's folder, and what is refused."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Measurement, Scan
from netprobe.pipeline import files, map_scan
from netprobe.plan import load_plan, prove_against_map
from tests.documents import make_scan, rack_scan


def with_goodput(scan: Scan, racks: list[int]) -> Scan:
    """The scan, with 1 Gbit/s inside the racks and a quarter of it across, a little less one way."""
    rack = np.array(racks)
    rate = np.where(rack[:, None] == rack[None, :], 1.25e8, 3.1e7) * (1 - 0.01 * np.tri(len(rack)))
    np.fill_diagonal(rate, np.nan)
    goodput = Measurement(
        id="goodput",
        key="goodput_bytes_per_s",
        method="tcp",
        unit="B/s",
        statistic="median",
    )
    return scan.model_copy(
        update={"measurements": [*scan.measurements, goodput], "goodput_bytes_per_s": {"goodput": rate}}
    )


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands are what is looked at here, not how far a search gets."""
    monkeypatch.setattr("netprobe.plan.order.annealed.STEPS_A_HOST", 200)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scan and the map of three racks, RTT and goodput."""
    folder = tmp_path_factory.mktemp("fleet")
    scan, racks = rack_scan((3, 3, 2), seed=5)
    scan = Scan.model_validate(with_goodput(scan, racks).model_dump(by_alias=True))
    files.save(scan, folder / files.SCAN)
    files.save(map_scan(scan), folder / files.MAP)
    return folder


def planned(folder: Path, out: Path, *more: str) -> dict[str, Any]:
    assert run(["plan", "order", str(folder / "map.json"), "--out", str(out), "-q", *more]) == 0
    plan = load_plan(out)
    document = load_document(Map, folder / "map.json")
    prove_against_map(plan, document)  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_an_algorithm_and_a_size_are_priced_and_the_scan_beside_the_map_judges(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(made, tmp_path / "a.json", "--algorithm", "nccl-tree", "--maximize")
    assert (plan["algorithm"], plan["collective"], plan["size_bytes"]) == ("nccl-tree", "all_reduce", None)
    assert plan["held_out"]["folds"] == 2 and plan["held_out"]["cost_s"] <= plan["held_out"]["cost_given_s"]
    assert plan["lower_bound_s"] <= plan["cost_s"] <= plan["cost_given_s"] <= plan["cost_worst_s"] * 1.000001
    assert plan["cost_random"]["least_s"] <= plan["cost_random"]["mean_s"] and plan["advice"]
    sized = planned(made, tmp_path / "b.json", "--algorithm", "nccl-tree", "--size", "100MB")
    assert sized["size_bytes"] == 10**8 and sized["cost_s"] > 100 * plan["cost_s"]
    # One reading of the goodput of each direction: nothing of it is left to judge by.
    assert sized["held_out"]["cost_s"] is None and sized["solver"]["held_out_s"] == {}
    assert "cannot tell: the scan has one reading of the goodput" in sized["held_out"]["text"]
    assert "on readings" not in sized["advice"]
    again = planned(made, tmp_path / "c.json", "--algorithm", "nccl-tree", "--size", "100MB")
    assert {**again, "created_at": ""} == {**sized, "created_at": ""}
    capsys.readouterr()
    assert run(["plan", "order", str(made / "map.json"), "--out", str(tmp_path / "d.json")]) == 0
    short = capsys.readouterr().out
    assert "order, rank 0 first:" in short and "random orders" not in short and "held out:" not in short
    assert (
        run(["plan", "order", str(made / "map.json"), "--out", str(tmp_path / "d.json"), "--force", "-v"])
        == 0
    )
    out = capsys.readouterr().out
    assert set(short.splitlines()[:2]) <= set(out.splitlines())
    assert (
        "1,000 random orders: mean" in out
        and "on readings held out:" in out
        and "this order is a best one by the map: proved" in out
    )


def test_without_its_scan_a_plan_says_that_nothing_was_held_out(made: Path, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_bytes((made / "map.json").read_bytes())
    plan = planned(tmp_path, tmp_path / "plan.json", "--algorithm", "bcube")
    assert (
        plan["held_out"]["folds"] == 0 and "no scan.json is in the map's folder" in plan["held_out"]["text"]
    )
    other = make_scan(np.full((8, 8), 1e-4))
    files.save(other, tmp_path / "scan.json")
    plan = planned(tmp_path, tmp_path / "plan2.json", "--algorithm", "bcube")
    assert "not the scan that the map was made from" in plan["held_out"]["text"]
    plan = planned(tmp_path, tmp_path / "plan3.json", "--scan", str(made / "scan.json"))
    assert plan["held_out"]["folds"] == 2
    # The parent under another name, among unrelated files.
    (tmp_path / "a-scan.json").write_text("{")
    os.mkfifo(tmp_path / "b-scan.json")
    (tmp_path / "first-scan-2.json").write_bytes((made / "scan.json").read_bytes())
    plan = planned(tmp_path, tmp_path / "plan5.json")
    assert plan["held_out"]["folds"] == 2
    plan = planned(made, tmp_path / "plan4.json", "--no-held-out")
    assert plan["held_out"]["text"] == "not requested"


def test_pairs_with_one_reading_cannot_judge(tmp_path: Path) -> None:
    scan, _ = rack_scan((4, 4), seed=2)
    rtt = np.array(scan.rtt_s.p10)
    rtt[np.tril_indices(8, -1)] = np.nan
    half = make_scan(rtt, names=[host.name for host in scan.hosts], status="partial")
    files.save(half, tmp_path / "scan.json")
    files.save(map_scan(half), tmp_path / "map.json")
    plan = planned(tmp_path, tmp_path / "plan.json", "--algorithm", "halving-doubling")
    text = "cannot tell: 28 of 28 pairs have one reading or none, and it takes two"
    if plan["kept_given"] is None or plan["held_out"] is not None:
        assert plan["held_out"]["text"] == text


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--algorithm", "star"], "no algorithm 'star': known are ring, chunked-ring, halving-doubling"),
        (["--algorithm", "2lha"], "its command is netprobe plan 2lha"),
        (["--algorithm", "bcube", "--objective", "bottleneck"], "only for the algorithm ring"),
        (["--size", "much"], "--size 'much': a number and one of"),
        (["--size", "0MB"], "size"),
        (["--time", "-1"], "a time of -1 s"),
        (["--exact", "1"], "its own solver proves small rings"),
        (["--scan", "nowhere.json"], "no such document"),
        (["--root", "nobody"], "root 'nobody' is not one of the 8 hosts"),
    ],
)
def test_bad_requests_are_one_line_and_leave_no_file(
    made: Path, tmp_path: Path, args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    assert run(["plan", "order", str(made / "map.json"), "--out", str(out), *args]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
    assert not out.exists()


def test_a_size_needs_goodput_and_another_scan_is_refused(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan, _ = rack_scan((4, 4), seed=2)
    files.save(scan, tmp_path / "scan.json")
    files.save(map_scan(scan), tmp_path / "map.json")
    for args, says in (
        (["--size", "1MB"], "the map knows no goodput"),
        (["--scan", str(made / "scan.json")], "is not the scan that the map was made from"),
    ):
        assert run(["plan", "order", str(tmp_path / "map.json"), *args]) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1
    assert not (tmp_path / "plan.json").exists()


def test_the_next_command_writes_no_file_that_is_there(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "map.json").write_bytes((made / "map.json").read_bytes())
    for taken in ("hostfile", "hostfile.plan", None):
        assert run(["plan", "order", str(tmp_path / "map.json"), "--force"]) == 0
        line = next(
            line for line in capsys.readouterr().out.splitlines() if line.startswith("next: netprobe ")
        )
        words = shlex.split(line)[2:]
        assert run(words) == 0
        capsys.readouterr()
        assert taken is None or (tmp_path / taken).is_file()
    assert words[-2:] == ["--out", str(tmp_path / "hostfile.plan-2")]


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_a_map_of_endless_distances_is_one_line(
    made: Path, tmp_path: Path, algorithm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((made / "map.json").read_text())
    rows = data["layers"]["rtt"]["distance_s"]
    data["layers"]["rtt"]["distance_s"] = [
        [0 if i == j else 1e308 for j in range(len(rows))] for i in range(len(rows))
    ]
    (tmp_path / "map.json").write_text(json.dumps(data))
    assert run(["plan", "order", str(tmp_path / "map.json"), "--algorithm", algorithm]) == 2
    err = capsys.readouterr().err
    assert "is 1e+308: at most 1e+09 is needed" in err and err.count("\n") == 1


def test_a_scan_orders_for_the_algorithm_that_is_asked_for(tmp_path: Path) -> None:
    quick = ["--via", "local", "--probes", "5", "--interval", "0.001", "--only", "plan"]
    assert (
        run(["scan", "--hosts", "a,b,c,d", *quick, "--algorithm", "bcube", "--out", str(tmp_path / "out")])
        == 0
    )
    plan = load_plan(tmp_path / "out" / "plan.json")
    assert isinstance(plan, OrderPlan) and plan.algorithm == "bcube"
