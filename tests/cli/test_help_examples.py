"""The examples of help, typed in turn: those that need no host, and of the others the names in them."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.cli.help import EXAMPLES
from netprobe.core.documents.document import write_document
from netprobe.lab.spec.layout import lay_out
from netprobe.lab.spec.reader import example_names, load_spec
from tests.documents import rack_scan

NEED_HOSTS = {"capacity", "verify", "check-order", "doctor"}
OF_LABS = {"lab", "up", "exec", "set", "down", "list"}
MATRIX = "host,a,b,c\na,0,9,8\nb,9,0,7\nc,8,7,0\n"
SIGNS = ("|", ">", "<")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a scan leaves it, with a schedule; and beside it what examples read besides."""
    place = tmp_path_factory.mktemp("examples")
    first = place / "first"
    first.mkdir()
    scan, _ = rack_scan((4, 3, 3), seed=1)
    labelled = [
        host.model_copy(update={"labels": {"zone": "z", "rack": f"r{i % 3}"}})
        for i, host in enumerate(scan.hosts)
    ]
    write_document(scan.model_copy(update={"hosts": labelled}), first / "scan.json")
    assert run(["map", str(first), "-q"]) == 0
    assert run(["plan", "order", str(first), "-q"]) == 0
    (place / "latency.csv").write_text(MATRIX)
    (place / "table.txt").write_text(MATRIX.replace(",", " "))
    (place / "hosts.txt").write_text("vm1\nvm2\n")
    assert run(["export", "topology", str(first), "--out", str(place / "topology.conf"), "-q"]) == 0
    return place


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - NEED_HOSTS - OF_LABS - {"completion", "launch"}))
def test_both_examples_of_a_command_work_in_turn(
    name: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    if name == "scan":
        shutil.rmtree("first")
    if name == "schedule":
        assert run(["plan", "2lha", "first", "--out", "first/plan-auto.json", "-q"]) == 0
    for example in EXAMPLES[name]:
        words = shlex.split(example)
        if "--dry-run" not in words and words[0] == "scan":
            words.append("--dry-run")
        piped = words[-1].startswith("<")
        if piped:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(words[-1][1:]).read_bytes())))
        end = next((at for at, word in enumerate(words) if word.startswith(SIGNS)), len(words))
        assert run(words[:end]) == 0, (example, capsys.readouterr().err)


def test_examples_of_labs_name_labs_and_hosts_that_there_are() -> None:
    hosts = {host.name for host in lay_out(load_spec("racks-4x4"), name="demo").hosts}
    assert "lab up racks-4x4 --name demo" in EXAMPLES["up"]
    for name in sorted(OF_LABS):
        for example in EXAMPLES[name]:
            words = shlex.split(example)
            assert words[1] != "up" or words[2] in example_names()
            assert words[1] in ("up", "list") or words[2] in ("demo", "--all")
            assert {word for word in words if word.startswith("h-")} <= hosts


@pytest.mark.parametrize(
    ("text", "is_", "reads"),
    [
        ("host,a,b\na,0,1\nb,1,0\n", "is a CSV", "netprobe import matrix"),
        ('{\n  "algorithm": "ring",\n  "collective": "all_reduce"}\n', "is a schedule as action lists", ""),
    ],
    ids=["csv", "actions"],
)
@pytest.mark.parametrize(
    "args",
    [
        "show {}", "map {}", "plan auto {}", "plan order {}", "plan ds-sync {}", "plan 2lha {}", "export hostfile {}",
        "export topology {}", "export schedule {}", "verify {}", "capacity {}", "check-order {}", "launch {} -- true",
        "map first --like {}", "plan auto first --capacity {}", "plan order first --scan {}", "eval {} --labels rack",
        "verify first --against {}", "verify first --map {}", "scan a,b --dry-run --like {}",
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_named_alike_by_every_command(
    args: str,
    text: str,
    is_: str,
    reads: str,
    made: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(made)
    Path("x").write_text(text)
    assert run(args.format("x").split()) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert is_ in err
    assert reads in err
