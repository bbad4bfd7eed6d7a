"""Documents that their folder does not take are kept elsewhere, of every kind."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Document, load_document, write_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import InputError, OutputExistsError
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


@pytest.mark.parametrize("kind", ["verify", "capacity"])
def test_what_is_there_is_replaced_with_force_alone_unless_it_is_of_a_run_that_read_nothing(
    kind: str, tmp_path: Path
) -> None:
    good = json.loads((GOLDEN / f"{kind}-1.0.json").read_text())
    path = tmp_path / "x.json"
    one_failed = [good["hosts"][0] | {"status": "failed"}, *good["hosts"][1:]]
    for text in (
        json.dumps(good),
        json.dumps(good | {"status": "partial", "hosts": one_failed}),
        json.dumps(good | {"status": "failed"})[:-1],
        json.dumps(good)[:-1] + ', "x": ' + "[" * 100_000,
        "",
    ):
        path.write_text(text)
        with pytest.raises(OutputExistsError, match="exists already: name"):
            files.prepare_file(path, kind=kind)
        files.prepare_file(path, kind=kind, force=True)
    path.write_text(json.dumps(good | {"status": "failed"}))
    files.prepare_file(path, kind=kind)
    path.write_text(json.dumps(good | {"status": "failed"}))
    with pytest.raises(OutputExistsError, match="is the input itself"):
        files.prepare_file(path, kind=kind, force=True, inputs=[path])
    with pytest.raises(OutputExistsError, match="which --force does not replace"):
        files.prepare_file(path, kind="map", force=True)


@pytest.mark.parametrize("kind", ["verify", "plan", "map"])
@pytest.mark.parametrize("text", ['{"status": "failed"}', "notes of mine", "[1]"])
def test_a_file_of_somebody_else_stays_also_with_force(kind: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(OutputExistsError, match=f"is not a {kind} of netprobe's"):
        files.prepare_file(path, kind=kind, force=True)
    assert path.read_text() == text
    # One that `ours` knows by its beginning is replaced.
    files.prepare_file(path, kind=kind, force=True, ours=lambda head: head == text)


def test_a_folder_that_takes_nothing_is_found_out_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    with pytest.raises(InputError, match="nothing can be written there"):
        files.prepare_file(tmp_path / "verify.json", kind="verify")
    assert list(tmp_path.iterdir()) == []
