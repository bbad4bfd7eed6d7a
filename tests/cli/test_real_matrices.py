"""Matrices that others measured, from the file to an order: a right answer or one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.plan import load_plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "locality", "hosts"),
    [
        ("aws_regions/aws_cloudping_21.csv", ["--unit", "ms"], "found", 21),
        ("aws_regions/cross-region_21.txt", ["--unit", "ms"], "found", 21),
        pytest.param(
            "seattle99/SeattleData_1",
            ["--unit", "s", "--zeros", "missing"],
            "found",
            99,
            marks=pytest.mark.long,
        ),
        ("goldpinger/checkall-success.json", [], "none", 3),
        ("gpu_p2p_matrix/a100x8_bidir_p2p_disabled_GBs.txt", ["--unit", "GB/s"], "cannot_tell", 8),
        ("gpu_p2p_matrix/dgx2_v100x12_p2p_disabled_GBs.txt", ["--unit", "GB/s"], "none", 12),
        (
            "nccl_pairwise_h100/cluster00_pairwise_17nodes_summary.csv",
            ["--select", "test=sendrecv_perf", "--select", "G=8"],
            "none",
            17,
        ),
    ],
)
def test_from_the_file_to_an_order(
    data_folder: Path, tmp_path: Path, name: str, options: list[str], locality: str, hosts: int
) -> None:
    """Regions differ; GPUs behind one bridge, and nodes of one fat fabric, do not."""
    scan, map_, plan = (str(tmp_path / file) for file in ("scan.json", "map.json", "plan.json"))
    assert run(["import", "matrix", str(data_folder / name), *options, "--out", scan]) in (0, 3)
    assert run(["map", scan, "--out", map_]) == 0
    found = load_document(Map, Path(map_))
    assert len(found.hosts) == hosts and found.verdict.locality == locality
    assert run(["plan", "order", map_, "--out", plan]) == 0
    planned = load_plan(Path(plan))
    assert isinstance(planned, OrderPlan)
    # Where nothing was found the order stays as it was.
    kept = planned.order == [host.name for host in planned.hosts]
    assert kept if locality == "none" else planned.cost_s < planned.cost_given_s


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nccl_pairwise_h100/cluster00_pairwise_17nodes_summary.csv", "--select test="),
        ("nccl_pairwise_h100/cluster00_pairwise_17nodes_failures.txt", "is not a square matrix"),
        ("cloudpilot_iperf3/direct_pairs.csv", "say with --column which column holds the value"),
        ("cloudpilot_iperf3/iperf3_edge/badjson_00.json", ""),
        ("hostfiles/kijungs__machinefile", ""),
    ],
)
def test_what_is_no_matrix_or_several_is_one_line(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    assert run(["import", "matrix", str(data_folder / name), "--out", str(tmp_path / "scan.json")]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not (tmp_path / "scan.json").exists()
