"""Old documents load for ever, and with the hash they always had. Add files; never edit one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from netprobe.core.document import Document, canonical_sha256, load_document
from netprobe.core.map import Map
from netprobe.core.scan import Scan
from netprobe.lab import load_truth
from netprobe.plan import load_plan

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize(
    ("name", "load", "sha256"),
    [
        (
            "scan-1.0.json",
            lambda path: load_document(Scan, path),
            "a3f274d4db7219f1759eccae595172c8e74422d7982dfd2142d24690aa29d43f",
        ),
        (
            "map-1.0.json",
            lambda path: load_document(Map, path),
            "f721a80f24a01cd8d63eb4dee316c28b68e01f45a2c2d06409cc04b7471d7c50",
        ),
        ("plan-1.0.json", load_plan, "5ceeed262043bb7941925c06cb4d4ce120b7e519c79b6fd51967fd375114a6e5"),
        ("truth-1.0.json", load_truth, "9e90b35a5226404b1d1101040a963802046ba65e89b9be89a522396de52b1970"),
    ],
)
def test_an_old_document_loads_with_its_old_hash(
    name: str, load: Callable[[Path], Document], sha256: str
) -> None:
    assert canonical_sha256(load(GOLDEN / name)) == sha256


def test_children_name_their_parents() -> None:
    scan, map_ = load_document(Scan, GOLDEN / "scan-1.0.json"), load_document(Map, GOLDEN / "map-1.0.json")
    assert [parent.sha256 for parent in map_.parents] == [canonical_sha256(scan)]
    assert [parent.sha256 for parent in load_plan(GOLDEN / "plan-1.0.json").parents] == [
        canonical_sha256(map_)
    ]
