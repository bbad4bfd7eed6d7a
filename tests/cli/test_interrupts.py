"""Ctrl-C wherever it comes: one line and exit code 130, a whole file or none, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents import document, matrix, visits
from netprobe.core.system import interrupts

TABLE = "host,a,b,c\na,0,100,300\nb,110,0,310\nc,320,330,0\n"


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any, str, int], list[int]]]:
    """Press Ctrl-C when a function is called for the n-th time; the list counts the calls."""
    before = signal.signal(signal.SIGINT, interrupts.interrupt)
    monkeypatch.setattr(interrupts, "_last_s", float("-inf"))

    def press(owner: Any, name: str, number: int) -> list[int]:
        calls: list[int] = []
        real = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            calls.append(len(calls))
            if len(calls) == number:
                signal.raise_signal(signal.SIGINT)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapped)
        return calls

    yield press
    signal.signal(signal.SIGINT, before)


# Where a document is made, serialized and written. pydantic calls the second of these from its own code.
POINTS = [
    (matrix, "set_aside"),
    (matrix, "rounded"),
    (visits, "set_aside"),
    (document, "_rounded"),
    (document, "to_json"),
    (tempfile, "mkstemp"),
    (os, "fdopen"),
    (os, "fsync"),
    (Path, "chmod"),
    (Path, "replace"),
]


@pytest.mark.parametrize(("owner", "name"), POINTS, ids=[name for _, name in POINTS])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("old", [False, True], ids=["new", "over an older one"])
def test_ctrl_c_while_a_document_is_written_leaves_a_whole_file_or_none(
    owner: Any,
    name: str,
    number: int,
    old: bool,
    tmp_path: Path,
    pressed: Callable[[Any, str, int], list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, out = tmp_path / "m.csv", tmp_path / "scan.json"
    table.write_text(TABLE)
    argv = ["import", "matrix", str(table), "--unit", "us", "--out", str(out)]
    if old:
        assert run([*argv, "--unit", "ms"]) == 0
        argv.append("--force")
    before = out.read_bytes() if old else None
    capsys.readouterr()
    calls = pressed(owner, name, number)
    code = run(argv)
    assert calls, f"{name} is no longer called: name the point that took its place"
    said = capsys.readouterr()
    if len(calls) < number:
        assert code == 0
        return
    assert code == 130 and said.err == "netprobe: interrupted\n"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left in (["m.csv"], ["m.csv", "scan.json"])
    if out.exists():
        assert out.read_bytes() == before or json.loads(out.read_text())["reason"] == "imported from m.csv"
    else:
        assert before is None


def test_an_interrupt_that_another_error_hides_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hidden() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__ on 'x'") from error

    monkeypatch.setattr("netprobe.pipeline.published.schemas", hidden)
    assert run(["schema", "scan"]) == 130
    assert capsys.readouterr().err == "netprobe: interrupted\n"


STARTING = """
import os, signal, sys
class Press:
    number = -1
    def find_spec(self, name, path=None, target=None):
        # From the module of main on: what Python itself loads before is not ours.
        Press.number += name == "netprobe.cli.entry" or Press.number >= 0
        if Press.number == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGINT)
        return None
sys.meta_path.insert(0, Press())
from netprobe.cli.entry import main
main(["map", "/nowhere/scan.json"])
"""


@pytest.mark.parametrize("number", [1, 2, 4, 9, 20, 45, 100])
def test_ctrl_c_while_the_command_is_still_imported_prints_no_traceback(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTING, str(number)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert done.stderr in ("", "netprobe: interrupted\n")
