"""The drawings and proofs of docs/schedules.md are what the code draws and proves today."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from netprobe.plan.schedule.builders import ALGORITHMS
from tests.repository.project import ROOT

SVG = "{http://www.w3.org/2000/svg}"
FOLDER = ROOT / "docs" / "schedules"


def test_every_builder_is_drawn_as_it_is_today() -> None:
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw_schedules.py", "--check"], check=True, timeout=120, cwd=ROOT
    )
    drawn = {path.stem for path in FOLDER.glob("*.svg")}
    assert drawn == {*ALGORITHMS, "hierarchical", "2lha"}
    page = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")
    for name in drawn:
        assert f"(schedules/{name}.svg)" in page and f"\n| [{name}](schedules/{name}.svg) | " in page


def test_a_ring_is_drawn_with_an_arrow_a_hop() -> None:
    root = ElementTree.parse(FOLDER / "ring.svg").getroot()
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == 6
    told = [path.findtext(f"{SVG}title") for path in arrows]
    assert told[0] == "step 0: chunk 0, h0 to h1" and told[-1] == "step 5: chunk 0, h1 to h2"
