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
            "e9e49a51ec7c3284f8f782f31e14e4733103e32a40f77acb8fc7f217a194dea3",
        ),
        (
            "map-1.0.json",
            lambda path: load_document(Map, path),
            "b077b9c4e6d9150cdc3cb2efb97a7dce6af0b4b2b19217a47a80bbbd50b7d236",
        ),
        ("plan-1.0.json", load_plan, "4379b95a38fdb82ff577a26de8ef35bbc472f6853a75c9d29ce75b0f5f5cfeb2"),
        ("truth-1.0.json", load_truth, "47e5fed535552f5ac76e903b8e0165de6c4ffb0d33e19fb0cfcc6acacb806f1f"),
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
