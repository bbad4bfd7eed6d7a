"""Documents that their folder does not take are kept elsewhere, whatever kind they are."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from netprobe.core.capacity import Capacity
from netprobe.core.document import Document, load_document, write_document
from netprobe.core.errors import InputError
from netprobe.core.map import Map
from netprobe.core.plan import OrderPlan
from netprobe.core.scan import Scan
from netprobe.pipeline import files

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    ("model", "name"),
    [(Scan, "scan-1.0"), (Map, "map-1.0"), (Capacity, "capacity-1.0"), (OrderPlan, "plan-1.0")],
)
def test_a_document_outlives_a_full_disk(
    model: type[Document], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, elsewhere = tmp_path / "full", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))

    def write(document: Document, path: Path) -> None:
        if full in path.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_document(document, path)

    monkeypatch.setattr(files, "write_document", write)
    document = load_document(model, GOLDEN / f"{name}.json")
    with pytest.raises(InputError) as caught:
        files.save(document, full / "x.json")
    (kept,) = elsewhere.glob(f"netprobe-{model.KIND}-*/x.json")
    assert f"No space left on device; the {model.KIND} is kept in {kept}" in str(caught.value)
    assert load_document(model, kept).parent() == document.parent()
    elsewhere.rename(tmp_path / "gone")
    with pytest.raises(InputError, match=f"the {model.KIND} is lost"):
        files.save(document, full / "x.json")
