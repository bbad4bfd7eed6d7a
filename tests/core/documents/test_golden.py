"""Old documents load for ever, and with the hash they always had. Add files; never edit one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Document, canonical_sha256, load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.verify import Verify
from netprobe.lab import load_truth
from netprobe.plan import load_plan, prove_against_map

GOLDEN = Path(__file__).parent.parent.parent / "golden"


@pytest.mark.parametrize(
    ("name", "load", "sha256"),
    [
        (
            "scan-1.0.json",
            lambda path: load_document(Scan, path),
            "e9e49a51ec7c3284f8f782f31e14e4733103e32a40f77acb8fc7f217a194dea3",
        ),
        (
            "scan-full-1.0.json",
            lambda path: load_document(Scan, path),
            "883481812c46de76b9ae1e32a86cd6d2678d924e05b3ceef46913172e40dc637",
        ),
        (
            "capacity-1.0.json",
            lambda path: load_document(Capacity, path),
            "fbee7a5bb5f7e5c9639f07ddd8d18a5fddc7bd7dd0c176467aeef9b6cdc4f052",
        ),
        (
            "map-1.0.json",
            lambda path: load_document(Map, path),
            "b077b9c4e6d9150cdc3cb2efb97a7dce6af0b4b2b19217a47a80bbbd50b7d236",
        ),
        (
            "map-1.1.json",
            lambda path: load_document(Map, path),
            "caaeb37c23a80c3a92961bcc84f6a491b7cb64382544e2f8fcbba7029870673b",
        ),
        ("plan-1.0.json", load_plan, "4379b95a38fdb82ff577a26de8ef35bbc472f6853a75c9d29ce75b0f5f5cfeb2"),
        (
            "verify-1.0.json",
            lambda path: load_document(Verify, path),
            "c153c6909dfff094a0768993f34802212703da10abac6abafa7ac6962578cde3",
        ),
        (
            "verify-1.2.json",
            lambda path: load_document(Verify, path),
            "aba9ea70596f6b2288149e6b2881bf42d3d73add5f1a1b02dcac9b22d3169259",
        ),
        ("plan-1.1.json", load_plan, "b3ee738f38ccd15bc1010295357c1db6a1c09e65a6d5393cba0197e9259257f5"),
        ("plan-1.2.json", load_plan, "fd7d7a8f5c01c9e41d0d2b2844e684caefdf804d730823e1954721cec379d457"),
        (
            "plan-schedule-1.2.json",
            load_plan,
            "43956a491318ea01372b99adbc5b3d00f9cc7c43f6599c4c469509995e1cf364",
        ),
        (
            "plan-ds-sync-1.2.json",
            load_plan,
            "1f3b56e97db2a428e3077cdb9fc378deb036e3a4d65fad50cecb70a5d18a9c80",
        ),
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
    for name in ("plan-1.0.json", "plan-1.1.json", "plan-1.2.json"):
        plan = load_plan(GOLDEN / name)
        assert [parent.sha256 for parent in plan.parents] == [canonical_sha256(map_)]
        assert isinstance(plan, OrderPlan)
        prove_against_map(plan, map_)

    verify, first = load_document(Verify, GOLDEN / "verify-1.0.json"), load_plan(GOLDEN / "plan-1.0.json")
    assert [parent.sha256 for parent in verify.parents] == [canonical_sha256(first), canonical_sha256(map_)]


def test_a_golden_scan_has_every_measurement_and_its_capacity_names_it() -> None:
    scan, capacity = (
        load_document(Scan, GOLDEN / "scan-full-1.0.json"),
        load_document(Capacity, GOLDEN / "capacity-1.0.json"),
    )
    assert [measurement.id for measurement in scan.measurements] == ["rtt", "path", "goodput"]
    assert scan.port_spread_s is not None and scan.hops is not None and scan.goodput_bytes_per_s is not None
    assert all(host.audit is not None for host in scan.hosts)
    assert canonical_sha256(scan) in {parent.sha256 for parent in capacity.parents} and capacity.resources
