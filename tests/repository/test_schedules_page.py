"""The code on docs/schedules.md runs as it is, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netprobe.plan import load_plan

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"


def test_the_algorithm_of_the_page_is_proved_and_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    star, bruck, planned = blocks
    assert len((star + planned).splitlines()) <= 40 and len(bruck.splitlines()) <= 40
    code = "\n".join(blocks)
    exec(compile(code, str(PAGE), "exec"), {})
    said = re.search(r"print\(.*\)  # (.*)", code)
    assert said is not None and capsys.readouterr().out.strip() == said[1]
    assert load_plan(tmp_path / "plan.json").kind == "schedule"
