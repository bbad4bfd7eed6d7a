"""``netprobe plan auto``, and ``plan MAP``, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import canonical_sha256, load_document, write_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Agent
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.pipeline import files
from netprobe.plan import load_plan
from tests.maps import made_capacity, made_map


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("netprobe.pipeline.planning.plan_auto.STEPS_A_HOST", 20)
    monkeypatch.chdir(tmp_path)
    map_ = made_map([2, 2, 2], unplaced=1, seed=1)
    files.save(map_, tmp_path / "map.json")
    files.save(made_map([1]), tmp_path / "one.json")
    files.save(made_capacity(map_, uplink=5e7), tmp_path / "capacity.json")
    files.save(made_capacity(map_, rates={"tx:h1": None}), tmp_path / "missing.json")
    files.save(made_capacity(made_map([3])), tmp_path / "other.json")
    return tmp_path


def test_the_fastest_is_written_and_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    words = ["--capacity", "capacity.json", "--size", "4MB"]
    assert run(["plan", "auto", "map.json", *words]) == 0
    said = capsys.readouterr().out
    for column in ("candidate", "pieces", "time", "steps", "wire", "across", "busiest"):
        assert column in said
    assert ".. and " in said and " more (-v)" in said
    assert "x as fast as" in said and "which choice holds for which size of the buffer:" in said
    assert "1 kB to " in said and " to 1 GB: " in said
    assert "left out, since they are not placed on the map: h6" in said and "wrote plan.json" in said
    plan = load_plan(folder / "plan.json")
    assert isinstance(plan, SchedulePlan) and plan.size_bytes == 4_000_000 and plan.predictions
    # Looked at again it says the same, of the document alone.
    assert run(["show", "plan.json"]) == 0
    shown = capsys.readouterr().out.replace("(--json)", "(-v)")
    again, first = ([line.rstrip() for line in text.splitlines()] for text in (shown, said))
    assert again[1 : first.index("wrote plan.json") + 1] == first[: first.index("wrote plan.json")]
    assert run(["plan", "auto", "map.json", *words, "-v", "--force"]) == 0
    more = capsys.readouterr().out
    assert "(-v)" not in more and len(more.splitlines()) > len(said.splitlines()) + 5
    # The file alone is planned by auto.
    assert run(["plan", "map.json", *words, "--json", "--force"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "schedule" and data["algorithm"] == plan.algorithm and data["reason"] == "faster"
    assert len(data["tried"]) > 10 and data["ranges"][-1]["last_bytes"] == 10**9
    assert run(["show", "plan.json", "--json"]) == 0
    kept = json.loads(capsys.readouterr().out)["plans"][0]
    assert len(kept["candidates"]) == len(data["tried"])
    assert [one["choice"] for one in kept["ranges"]] == [one["choice"] for one in data["ranges"]]
    keys = {"time_s", "low_s", "high_s", "steps", "bytes_on_wire", "bytes_across_groups", "busiest"}
    assert keys <= set(data["tried"][0])


def test_a_narrow_terminal_goes_without_columns_and_breaks_no_word(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {}
    for width in (150, 80, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        assert (
            run(["plan", "auto", "map.json", "--capacity", "capacity.json", "--size", "4MB", "--force", "-v"])
            == 0
        )
        table = capsys.readouterr().out.split("\n\n")[0].splitlines()
        assert all(len(line.rstrip()) <= width for line in table)
        lines[width] = table
    assert len(lines[150]) == len(lines[80]) == len(lines[60]) > 10
    for wide, narrow in zip(lines[150][1:], lines[60][1:], strict=True):
        assert wide.split("  ")[0] == narrow.split("  ")[0]
    assert len(lines[60][0].split()) < len(lines[150][0].split()) and "time" in lines[60][0]


def test_hosts_give_the_order_seeds_repeat_and_quiet_says_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = "h3,h1,h2,h0,h4,h5,h6"
    words = ["plan", "auto", "map.json", "--hosts", hosts, "--size", "1kB", "--seed", "7", "--quiet"]
    found = []
    for name in ("a.json", "b.json"):
        assert run([*words, "--out", name]) == 0
        found.append(canonical_sha256(load_plan(folder / name)))
    assert found[0] == found[1] and capsys.readouterr() == ("", "")
    assert [host.name for host in load_plan(folder / "a.json").hosts] == hosts.split(",")


def test_latencies_alone_cannot_tell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "auto", "map.json", "--size", "2MB"]) == 0
    said = capsys.readouterr().out
    assert "what is fastest for 2 MB is not known: the map knows latencies alone" in said
    assert "1.449 kB to 1 GB: not known" in said and "not known: how long bytes take" in said
    plan = load_plan(folder / "plan.json")
    assert isinstance(plan, SchedulePlan) and plan.order == [f"h{i}" for i in range(6)]
    # Latencies would pick halving-doubling, which says nothing of 2 MB: what libraries run is written, and called so.
    assert plan.algorithm == "chunked-ring" and " is kept" not in said
    assert "chunked-ring in the original order is written, which is not a choice" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["one.json"], "two hosts at least are needed"),
        (["map.json", "--size", "2GB"], "1 B to 1 GB can be planned"),
        (["map.json", "--size", "-1"], "--size '-1' is negative: 1 B to 1000 GB are allowed"),
        (["map.json", "--size", "1e30"], "--size '1e30' is too large: at most 1000 GB are allowed"),
        (["map.json", "--size", "2e6"], "--size '2e6' has no unit, one of B, kB"),
        (["map.json", "--capacity", "missing.json"], "the capacity of tx:h1 was not measured"),
        (["map.json", "--capacity", "other.json"], "its hosts differ from those of the map"),
        (["none.json"], "no such document"),
        (["capacity.json"], "is a capacity document, and a map is needed"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "auto", *words, "--out", "out.json"]) == 2
    said = capsys.readouterr().err
    assert says in said and len(said.strip().splitlines()) == 1 and not (folder / "out.json").exists()


def test_a_misspelled_command_is_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "atuo", "map.json"]) == 2
    assert "No such command" in capsys.readouterr().err


def test_the_capacities_beside_the_map_are_used_where_they_are_of_this_map(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    map_ = load_document(Map, folder / "map.json")
    own = made_capacity(map_, uplink=5e7).model_copy(update={"parents": [map_.parent()]})

    def parents(command: list[str], kept: Capacity, *words: str) -> list[str]:
        files.save(kept, folder / "capacity.json")
        assert run(["plan", *command, "--out", "out.json", "--force", *words, "--quiet"]) == 0
        return [parent.schema_.split("/")[0] for parent in load_plan(folder / "out.json").parents]

    other = made_map([2, 2, 2], unplaced=1, seed=2)
    of_another = own.model_copy(update={"parents": [other.parent()]})
    lacking = made_capacity(map_, rates={"tx:h1": None}).model_copy(update={"parents": [map_.parent()]})
    for command in (
        ["auto", ".", "--size", "1MB"],
        ["2lha", "map.json", "--size", "1MB"],
        ["order", "."],
        ["ds-sync", "."],
    ):
        with_rates = parents(command, own)
        assert "netprobe.capacity" in with_rates, command
        assert with_rates == parents(command, own, "--capacity", "capacity.json")
        # Left out on request; of another map, of no map, or without all rates they are not taken unasked.
        for without in (
            parents(command, own, "--capacity", "none"),
            parents(command, of_another),
            parents(command, own.model_copy(update={"parents": []})),
            parents(command, lacking),
        ):
            assert "netprobe.capacity" not in without, command


def test_a_file_named_none_is_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "none").write_bytes((folder / "other.json").read_bytes())
    assert run(["plan", "auto", "map.json", "--capacity", "none"]) == 2
    assert "its hosts differ from those of the map" in capsys.readouterr().err


def test_a_map_of_latencies_alone_goes_on_with_an_order_and_names_capacity_where_hosts_can_be_asked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "auto", "map.json"]) == 0
    imported = capsys.readouterr().out
    assert "netprobe plan order looks for an order of ranks with less latency" in imported
    assert "next: netprobe plan order map.json" in imported and "netprobe capacity" not in imported
    map_ = load_document(Map, folder / "map.json")
    agent = Agent(version="0.1", python="3.11.2", hostname="h", kernel="6.1")
    hosts = [host.model_copy(update={"agent": agent}) for host in map_.hosts]
    files.save(map_.model_copy(update={"hosts": hosts}), folder / "map2.json")
    assert run(["plan", "auto", "map2.json", "--force"]) == 0
    scanned = capsys.readouterr().out
    assert "next: netprobe plan order map2.json\n      netprobe capacity ." in scanned
    assert "is not known without capacities: netprobe capacity measures them" in scanned


@pytest.mark.parametrize(("kind", "fits"), [("auto", "export schedule"), ("ds-sync", "netprobe show")])
def test_a_plan_that_its_folder_did_not_take_goes_on_with_a_command_that_reads_it(
    kind: str,
    fits: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    real = write_document

    def full(document: Any, path: Path) -> None:
        if path.name == "out.json" and path.parent == Path():
            raise OSError(28, "No space left on device")
        real(document, path)

    monkeypatch.setattr(files, "write_document", full)
    assert run(["plan", kind, "map.json", "--out", "out.json"]) == 2
    said = capsys.readouterr().err
    assert f"go on with netprobe {fits.removeprefix('netprobe ')}" in said
    kept = said.partition("is kept in ")[2].partition(": go on")[0]
    command = ["show", kept] if kind == "ds-sync" else ["export", "schedule", kept]
    assert run(command) == 0


def test_an_exported_schedule_is_answered_with_the_plan_it_came_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "auto", "map.json", "-q"]) == 0
    for name in ("json", "msccl"):
        assert run(["export", "schedule", "plan.json", "--format", name, "--out", f"out.{name}", "-q"]) == 0
        capsys.readouterr()
        assert run(["verify", f"out.{name}"]) == 2
        said = capsys.readouterr().err
        assert "give the plan that it was exported from" in said and "scan's folder" not in said
