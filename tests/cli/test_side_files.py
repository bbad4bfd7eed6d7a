"""A plan with arrays beside it: Ctrl-C or a full disk while they are written leaves the older plan, whole, or none."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents import table
from netprobe.core.documents.document import canonical_sha256
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.system import interrupts
from netprobe.pipeline import files
from netprobe.plan import load_plan
from tests.maps import made_map


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A command whose plan has a side file; temporary folders are inside ``tmp_path``."""
    monkeypatch.setattr(table, "INLINE_ROWS", 4)
    monkeypatch.setattr(interrupts, "_last_s", float("-inf"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    files.save(made_map([2, 2]), tmp_path / "map.json")
    before = signal.signal(signal.SIGINT, interrupts.interrupt)
    yield [
        "plan",
        "2lha",
        str(tmp_path / "map.json"),
        "--out",
        str(tmp_path / "plan.json"),
        "--chunk",
        "64KB",
    ]
    signal.signal(signal.SIGINT, before)


def on_call(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, then: Any) -> list[int]:
    """Do ``then`` when a function is called for the n-th time; the list counts the calls."""
    calls: list[int] = []
    real = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == number:
            then()
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return calls


def disk_is_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("old", [False, True], ids=["new", "over an older one"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "place",
    [(os, "fsync", True), (tempfile, "mkstemp", True), (os, "fsync", False), (Path, "replace", False)],
)
def test_both_files_of_a_plan_are_written_or_neither(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], place: tuple[Any, str, bool], number: int, old: bool,
) -> None:  # fmt: skip
    owner, name, full = place
    out = tmp_path / "plan.json"
    before = None
    if old:
        assert run([*words, "--size", "512kB"]) == 0
        before = canonical_sha256(load_plan(out))
        words.append("--force")
    capsys.readouterr()
    with monkeypatch.context() as changed:
        press = disk_is_full if full else lambda: signal.raise_signal(signal.SIGINT)
        calls = on_call(changed, owner, name, number, press)
        code = run([*words, "--size", "1024kB"])
    assert len(calls) >= number
    said = capsys.readouterr().err
    assert code == (2 if full else 130) and "Traceback" not in said
    if full:
        assert os.strerror(errno.ENOSPC) in said and len(said.splitlines()) <= 2
    left = {path.name for path in tmp_path.iterdir()} - {"map.json", "kept"}
    assert left in (set(), {"plan.json", "plan.json.npz"})
    if out.exists():
        plan = load_plan(out)
        written = isinstance(plan, SchedulePlan) and plan.size_bytes == 1_024_000
        assert canonical_sha256(plan) == before or (name == "replace" and written)
    else:
        assert before is None
    kept = list((tmp_path / "kept").rglob("plan.json"))
    assert len(kept) == full and all(load_plan(path) for path in kept)
