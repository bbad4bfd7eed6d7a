"""The code on docs/schedules.md runs as it is, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from netprobe.plan import load_plan
from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.simulate import Job, simulate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"


def test_the_algorithm_of_the_page_is_proved_and_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    star, bruck, _named, planned, _timed = blocks
    assert len((star + planned).splitlines()) <= 40 and len(bruck.splitlines()) <= 40
    code = "\n".join(blocks)
    # Taken out again at the end.
    monkeypatch.setitem(ALGORITHMS, "star", ALGORITHMS["ring"])
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    said = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(said) == 2 and capsys.readouterr().out.splitlines() == said
    job = Job(schedule=build("chunked-ring", 8), order=found["plan"].order, size_bytes=100_000_000)
    assert f"a ring takes {simulate(found['network'], [job]).time_s:.2f} s" in PAGE.read_text(
        encoding="utf-8"
    )
    assert load_plan(tmp_path / "plan.json").kind == "schedule"
