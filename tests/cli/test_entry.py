from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from netprobe.cli.app import COMMANDS
from netprobe.cli.commands.scan_output import show_chain
from netprobe.cli.entry import run
from netprobe.cli.options.algorithms import ALGORITHM_NAMES
from netprobe.cli.output import Output
from netprobe.cli.progress import ScanProgress
from netprobe.core.documents.document import write_document
from netprobe.formats import FORMATS, TOPOLOGY_FORMATS
from netprobe.lab.spec.reader import example_names
from netprobe.pipeline.chain import Chain
from netprobe.pipeline.mapping.map_scan import map_scan
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.plan.costs import MODELS
from netprobe.probe.records.events import ScanWarning
from tests.documents import rack_scan


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from netprobe.cli.entry import run\n"
        "assert run(['--help']) == 0\n"
        "heavy = {'torch', 'sklearn', 'scapy', 'numpy', 'scipy', 'pydantic', 'rich', 'yaml'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    assert "Exit codes" in done.stdout


def test_help_of_commands_reads_no_option_and_show_imports_no_format_and_no_search(tmp_path: Path) -> None:
    scan, _ = rack_scan((3, 3), seed=1)
    mapped = map_scan(scan)
    for document, name in ((scan, "scan"), (mapped, "map"), (plan_order(mapped, PlanRequest()), "plan")):
        write_document(document, tmp_path / f"{name}.json")
    code = (
        "import sys\n"
        "from netprobe.cli.entry import run\n"
        "for words in ('scan --help', 'plan --help', 'plan order -h', 'lab up --help', 'help export schedule'):\n"
        "    assert run(words.split()) == 0, words\n"
        "print('HELP', *sorted({'numpy', 'scipy', 'pydantic', 'rich', 'yaml'} & set(sys.modules)))\n"
        "assert run(['show', sys.argv[1]]) == 0\n"
        "needless = ('netprobe.formats', 'netprobe.cluster', 'netprobe.embed', 'netprobe.plan.auto', 'scipy', 'yaml',\n"
        "            'netprobe.plan.order.order', 'netprobe.core.documents.verify')\n"
        "print('SHOW', *(name for name in needless if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert [line.strip() for line in done.stdout.splitlines() if line[:5].strip() in {"HELP", "SHOW"}] == [
        "HELP",
        "SHOW",
    ]


def test_help_imports_no_command_and_has_a_line_for_each() -> None:
    code = (
        "import sys\n"
        "from netprobe.cli.entry import run\n"
        "assert run(['--help']) == 0\n"
        "print(*sorted(name for name in sys.modules if name.startswith('netprobe.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *said, modules = done.stdout.splitlines()
    assert set(modules.split()) <= {
        "netprobe._version", "netprobe.cli", "netprobe.cli.app", "netprobe.cli.entry", "netprobe.cli.lazy",
        "netprobe.cli.running",
        "netprobe.core", "netprobe.core.errors", "netprobe.core.system", "netprobe.core.system.interrupts",
        "netprobe.core.text",
    }  # fmt: skip
    assert len(COMMANDS) >= 12
    for name, command in COMMANDS.items():
        assert any(line.split() == [name, *command.help.split()] for line in said)
        assert command.load(name).name == name


@pytest.mark.parametrize(
    "args", [["scan", "--help"], ["map", "-h"], ["plan", "order", "--help"], ["export", "hostfile", "--help"]]
)
def test_every_command_has_help(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 0
    assert "Usage: netprobe" in capsys.readouterr().out


def test_help_lists_what_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The lists in help are written down apart from what they list, which is slow to import."""
    assert tuple(MODELS) == ALGORITHM_NAMES
    for args, names in (
        (["lab", "up"], example_names()),
        (["plan", "order"], ALGORITHM_NAMES),
        (["verify"], ALGORITHM_NAMES),
        (["export", "hostfile"], tuple(name for name, entry in FORMATS.items() if entry.write)),
        (["export", "topology"], tuple(TOPOLOGY_FORMATS)),
    ):
        assert run([*args, "--help"]) == 0
        said = "".join(capsys.readouterr().out.split())
        assert all(name in said for name in names) and names
    assert run(["scan", "--help"]) == 0
    assert "*.old" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["map"], "Missing argument 'SCAN'"),
        (["map", "x.json", "--bogus"], "No such option"),
        (["map", "x.json", "--k", "zero"], "--k"),
        (["schema", "bogus"], "known are scan, map, capacity, plan, verify, truth"),
        (["lab", "down"], "name one lab"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_an_error_is_valid_json_when_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", "/nonexistent/scan.json", "--json"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert data["exit_code"] == 2
    assert "no such document" in data["error"]


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "netprobe", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("netprobe 0.")


def test_a_bug_of_ours_is_exit_1_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import netprobe.pipeline.published

    def broken() -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(netprobe.pipeline.published, "schemas", broken)
    assert run(["schema", "scan"]) == 1
    err = capsys.readouterr().err
    assert "internal error" in err
    assert "Traceback" not in err


def test_a_terminal_without_block_characters_gets_ascii_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan, _ = rack_scan((3, 3), seed=1)
    write_document(scan, tmp_path / "scan.json")
    printed = io.BytesIO()
    stream = io.TextIOWrapper(
        printed, encoding="ascii", write_through=True
    )  # it closes what it wraps when it goes
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert run(["map", str(tmp_path / "scan.json")]) == 0
    assert b"locality found" in printed.getvalue() and printed.getvalue().isascii()
    # And a locale of which Python makes no UTF-8, in a process of its own.
    argv = [sys.executable, "-m", "netprobe", "map", str(tmp_path / "scan.json"), "--force"]
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(argv, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert b"locality found" in done.stdout
    assert b"Traceback" not in done.stderr


def test_a_closed_stdout_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m netprobe schema scan >&-', sys.executable],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


def test_a_full_disk_under_stdout_is_one_line(tmp_path: Path) -> None:
    scan, _ = rack_scan((2, 2), seed=1)
    write_document(scan, tmp_path / "scan.json")
    argv = [sys.executable, "-m", "netprobe", "map", str(tmp_path / "scan.json"), "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "standard output cannot be written: No space left on device" in done.stderr
    assert (tmp_path / "map.json").exists()


@pytest.mark.slow
def test_a_reader_that_has_gone_changes_neither_the_exit_code_nor_a_word(tmp_path: Path) -> None:
    """``| head -1``: whichever write or flush meets the broken pipe first."""
    scan, _ = rack_scan((2, 2), seed=1)
    write_document(scan, tmp_path / "scan.json")
    plan, said = str(tmp_path / "plan.json"), tmp_path / "said"
    said.write_text("netprobe-rank 1 openmpi 0 1 0 names nobody addresses end\n")
    assert run(["map", str(tmp_path / "scan.json"), "--no-compare", "--quiet"]) == 0
    for code, args in (
        (0, ["plan", "order", str(tmp_path / "map.json")]),
        (3, ["check-order", plan, "--read", str(said)]),
        (2, ["check-order", plan, "--launcher", "none", "--json"]),
        (0, ["--help"]),
    ):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            argv = [sys.executable, "-m", "netprobe", *args]
            done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        finally:
            os.close(writing)
        assert done.returncode == code, (args, done.stderr)
        assert "roken pipe" not in done.stderr and "Traceback" not in done.stderr
    assert Path(plan).exists()


def test_help_of_several_commands_is_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for command in ("plan", "export", "import", "lab", "manifest"):
        assert run([command, "--help"]) == 0
        said = capsys.readouterr().out
        assert "Commands:" in said and "..." not in said.partition("Commands:")[2]


def test_a_warning_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan, _ = rack_scan((2, 2), seed=1)
    output = Output()
    progress = ScanProgress(output)
    progress.on_event(ScanWarning(text="came with the scan"))
    chain = Chain(folder=tmp_path, scan=scan, warnings=("came with the scan", "came with the map"))
    show_chain(chain, output, progress.warned)
    said = capsys.readouterr()
    assert said.err == "warning: came with the scan\n"
    assert "came with the scan" not in said.out and said.out.count("warning: came with the map") == 1
