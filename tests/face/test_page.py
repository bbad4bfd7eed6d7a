"""The examples of docs/python.md run, in their order and in one namespace, as a reader types them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import netprobe
from tests.documents import capacity_of, rack_scan
from tests.repository.project import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
ON_A_LAB = [block for block in BLOCKS if "netprobe.Lab" in block]


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scan, _ = rack_scan([3, 2])
    map_ = netprobe.map_scan(scan)
    (tmp_path / "first").mkdir()
    for document in (scan, map_, capacity_of(map_), netprobe.plan_order(map_, scan=scan)):
        netprobe.save(document, "first")
    names: dict[str, Any] = {}
    blocks = [block for block in BLOCKS if block not in ON_A_LAB]
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


@pytest.mark.lab
def test_the_examples_on_a_lab_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"netprobe": netprobe}
    assert ON_A_LAB
    for block in ON_A_LAB:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert list(tmp_path.iterdir()) == []


def test_the_page_describes_every_name() -> None:
    named = set(re.findall(r"\w+", PAGE))
    assert set(netprobe.__all__) - {"__version__"} - named == set()
