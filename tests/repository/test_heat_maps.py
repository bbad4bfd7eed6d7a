"""scripts/draw_heat_maps.py draws a scan in both orders."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.repository.project import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def test_a_scan_is_drawn_with_its_hosts_in_the_original_order_and_in_the_plans(tmp_path: Path) -> None:
    scan = {
        "hosts": [{"name": name} for name in ("a", "b", "c")],
        "measurements": [{"statistic": "p10"}],
        "rtt_s": {"p10": [[None, 3e-4, 1e-4], [3e-4, None, None], [1e-4, 3e-4, None]]},
    }
    plan = {
        "order": ["a", "c", "b"],
        "cost_s": 3.5e-4,
        "cost_given_s": 4e-4,
        "crossings": 1,
        "crossings_given": 2,
    }
    (tmp_path / "scan.json").write_text(json.dumps(scan))
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    drawn = tmp_path / "drawn.svg"
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw_heat_maps.py", tmp_path, drawn], check=True, timeout=60
    )
    texts = [text.text for text in ElementTree.parse(drawn).iter(f"{SVG}text")]
    assert [text for text in texts if text in ("a", "b", "c")] == ["a", "b", "c", "a", "c", "b"]
    assert "0.40 ms round the ring, 2 of 3 hops between groups" in texts
    assert "0.35 ms round the ring, 1 of 3 hops between groups" in texts
