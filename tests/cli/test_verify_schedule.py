"""``netprobe verify`` of a schedule as a user types it: each option is used, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.core.hosts import Host
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.document import Placement


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A schedule in the folder we are in; nobody answers on its hosts."""
    monkeypatch.chdir(tmp_path)
    hosts = [Host(name=f"h{i}") for i in range(4)]
    placement = Placement(hosts=hosts, order=[host.name for host in hosts])
    write_document(build_schedule_plan(build("bcube", 4), placement), tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--channels", "0"], "0 channels: 1 to 64 are allowed"),
        (["--channels", "2"], "--channels is for rank orders"),
        (["--algorithm", "ring"], "--algorithm is for rank orders"),
        (["--orders", "3"], "--orders is for rank orders"),
        (["--map", "map.json"], "map.json: no such document"),
        (["--program", "x"], "--program goes with --with nccl-tests"),
        (["--with", "nothing"], "known are mpi, gloo, nccl-tests"),
        (["--with", "gloo", "--size", "1MB", "--algorithm", "ring"], "--algorithm is for rank orders"),
        (["--with", "gloo", "--size", "1001B"], "a size of 1001 bytes: floats of 4 bytes"),
        (["--against", "random"], "--against random is for rank orders"),
        (["--against", "nothing"], "neither a plan's file nor an algorithm: ring, "),
        (["--against", "reduce-scatter"], "it is a reduce-scatter"),
        (["--against", "flat"], "is an algorithm and a file here: the file is ./flat"),
        (["--capacity", "plan.json"], "a capacity is needed"),
    ],
)
def test_what_is_for_orders_alone_is_refused(
    plan: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (plan.parent / "flat").write_bytes(plan.read_bytes())
    assert run(["verify", "plan.json", "--via", "false {host}", *words]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not (plan.parent / "verify.json").exists()


@pytest.mark.parametrize("words", [["--against", "./flat"], ["--against", "nccl-tree"], ["--require-all"]])
def test_the_others_are_used(plan: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """All that is missing is the hosts."""
    other = json.loads(plan.read_text(encoding="utf-8"))
    (plan.parent / "flat").write_text(
        json.dumps(other | {"seed": other["seed"] + 1, "own_sha256": None}), encoding="utf-8"
    )
    assert run(["verify", "plan.json", "--via", "false {host}", "--quiet", *words]) == 4
    assert "4 of 4 hosts are not up, and all are required" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ([], ["halving-doubling"]),
        (["--with", "mpi"], ["halving-doubling", "mpi"]),
        (["--against", "bcube"], []),
    ],
)
def test_what_takes_the_time_again_is_said_beforehand(
    plan: Path, words: list[str], others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "plan.json", "--via", "false {host}", "--time", "7s", *words]) == 4
    said = [line for line in capsys.readouterr().err.splitlines() if "runs for " in line]
    assert len(said) == bool(others)
    if said:
        assert "runs for 7" in said[0] and all(name in said[0] for name in others)


@pytest.mark.parametrize("channels", ["0", "-1", "100000", "9" * 30])
def test_channels_of_an_order_are_1_to_64(
    plan: Path, channels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Path(__file__).parents[1] / "golden" / "plan-1.2.json"
    assert json.loads(golden.read_text(encoding="utf-8"))["kind"] == "order"
    assert run(["verify", str(golden), "--channels", channels, "--out", "verify.json"]) == 2
    assert capsys.readouterr().err.endswith(f"{channels} channels: 1 to 64 are allowed\n")
    assert run(["verify", "--help"]) == 0
    assert "1 to 64" in capsys.readouterr().out
