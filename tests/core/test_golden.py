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
            "015fcafd88950393b3ddb2a734d50f9f5c0be2b47ae6c59942ab2ebb63603fb5",
        ),
        (
            "map-1.0.json",
            lambda path: load_document(Map, path),
            "da59f02de1acbf11698ec63de59ea319eb2426b1d92a36b963db24ff903ee431",
        ),
        ("plan-1.0.json", load_plan, "cba6d128eb0bc170e1881e1a6aad42602a1316e0323bf208c6ae05a76072de49"),
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
