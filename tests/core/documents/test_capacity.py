"""Capacity documents that contradict themselves, or say what no network carries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.errors import DocumentError

GOLDEN = Path(__file__).parents[2] / "golden" / "capacity-1.0.json"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda made: made["groups"][0]["hosts"].append(made["groups"][1]["hosts"][0]),
            "share a host or an id",
        ),
        (lambda made: made["groups"][1].update(id=made["groups"][0]["id"]), "share a host or an id"),
        (lambda made: made["groups"][0]["hosts"].append("nobody"), "a group has a host that is not listed"),
        (lambda made: made["resources"][0].update(bytes_per_s=1e15), "less than or equal to 1"),
        (lambda made: made["resources"][0].update(bytes_per_s=-1.0), "greater than or equal to 0"),
        (lambda made: made["resources"].append(made["resources"][0]), "two resources have the same id"),
    ],
)
def test_a_document_that_cannot_be_is_refused_in_a_line(
    tmp_path: Path, edit: Callable[[Any], None], says: str
) -> None:
    made = json.loads(GOLDEN.read_text())
    edit(made)
    path = tmp_path / "capacity.json"
    path.write_text(json.dumps(made))
    with pytest.raises(DocumentError, match=says) as raised:
        load_document(Capacity, path)
    assert "\n" not in str(raised.value)
