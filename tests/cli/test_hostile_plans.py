"""Schedule plans made to harm: one line and exit code 2, before much time or memory is spent."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents import matrix, table
from netprobe.core.documents.document import write_document
from netprobe.core.documents.matrix import array_digest
from netprobe.plan.schedule.builders import build
from tests.plan.schedule.test_document import planned

Data = dict[str, Any]
MILLION = 1_000_000


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan among 4 hosts whose transfers are in the side file."""
    monkeypatch.setattr(table, "INLINE_ROWS", 4)
    path = tmp_path / "plan.json"
    write_document(planned(build("chunked-ring", 4)), path)
    assert run(["show", str(path)]) == 0 and path.with_name("plan.json.npz").exists()
    return path


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    for command in (["show"], ["verify"], ["export", "schedule"]):
        assert run([*command, str(path)]) == 2, command
        said = capsys.readouterr()
        assert len(said.err.strip().splitlines()) == 1 and len(said.err) < 800 and said.out == ""
    return said.err


def edited(path: Path, edit: Callable[[Data], None]) -> None:
    data = json.loads(path.read_text())
    data.pop("own_sha256", None)
    edit(data)
    path.write_text(json.dumps(data))


def put(path: Path, array: np.ndarray, name: str = "plan.json.npz") -> Data:
    """``array`` as the side file; what names it in a document."""
    content = io.BytesIO()
    np.save(content, array)
    with zipfile.ZipFile(path.with_name(name), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", content.getvalue())
    return {"npz": name, "key": "a", "sha256": array_digest(array), "shape": list(array.shape)}


def transfers(data: Data, value: Any) -> None:
    data["templates"][0]["transfers"] = value


def rows_of(count: int) -> np.ndarray:
    """Transfers that are each possible: steps ascend, ranks and chunks are there."""
    made = np.zeros((count, 6), np.int32)
    made[:, 0], made[:, 1], made[:, 2] = np.arange(count), np.arange(count) % 4, (np.arange(count) + 1) % 4
    made[:, 4] = 1
    return made


@pytest.mark.parametrize("count", [5_000, pytest.param(3 * MILLION, marks=pytest.mark.long)])
def test_more_transfers_than_do_any_good(plan: Path, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    reference = put(plan, rows_of(count))
    edited(plan, lambda data: transfers(data, reference))
    assert "plan.json" in refused(plan, capsys)


@pytest.mark.parametrize("kind", [np.float64, np.uint64, np.complex128, np.bool_])
def test_arrays_of_another_type(plan: Path, kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    array = rows_of(20).astype(kind)
    if kind is np.uint64:
        array[3, 1] = np.uint64((1 << 64) - 1)
    reference = put(plan, array)
    edited(plan, lambda data: transfers(data, reference))
    assert "transfers" in refused(plan, capsys)


def test_a_small_file_that_unpacks_to_a_large_array(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its length is read from the document and the header, and nothing is unpacked."""
    small = np.zeros((8, 6), np.int64)
    reference = put(plan, small)
    for shape in ([1 << 40, 6], [1 << 23, 16], [8, 1 << 50], [8], [-1, 6], [8.0, 6], "8", None, [[8], 6]):
        edited(plan, lambda data, shape=shape: transfers(data, {**reference, "shape": shape}))  # type: ignore[misc]
        assert "table" in refused(plan, capsys)


def test_one_array_named_by_many_tables(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = put(plan, np.zeros((150_000, 6), np.int64))

    def many(data: Data) -> None:
        data["templates"] = [{"chunks": 1, "transfers": reference}] * 40

    edited(plan, many)
    assert "all tables together" in refused(plan, capsys)


def test_a_matrix_is_not_unpacked_beyond_what_any_fleet_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = put(tmp_path / "x", np.zeros((64, 64)), "x.npz")
    assert matrix.load_array(tmp_path, reference).shape == (64, 64)
    monkeypatch.setattr(matrix, "MOST_BYTES", 64 * 64 * 8 - 1)
    with pytest.raises(ValueError, match="larger than"):
        matrix.load_array(tmp_path, reference)


@pytest.mark.parametrize(
    "name",
    ["../plan.json.npz", "/etc/passwd", "x" * 5000, "\u00fc" * 200, "a\x00b", "", ".", "no.npz", "\x1b[2J"],
)
def test_names_of_files_that_are_not_beside_the_plan(
    plan: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = put(plan, rows_of(20))
    edited(plan, lambda data: transfers(data, {**reference, "npz": name}))
    said = refused(plan, capsys)
    assert "side file" in said or "null" in said
    assert "\x1b" not in said


def test_another_plans_arrays(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_document(planned(build("chunked-ring", 5)), other / "plan.json")
    plan.with_name("plan.json.npz").write_bytes((other / "plan.json.npz").read_bytes())
    assert "plan.json.npz" in refused(plan, capsys)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("name", ["plan.json", "plan.json.npz"])
def test_files_that_are_cut_short(
    plan: Path, name: str, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = plan.with_name(name).read_bytes()
    plan.with_name(name).write_bytes(whole[: int(len(whole) * share)])
    assert "plan.json" in refused(plan, capsys)


@pytest.mark.parametrize(
    "number",
    [(1 << 53) + 1, (1 << 63) - 1, 1 << 64, 10**400, -1, 1e300],
    ids=["2^53+1", "2^63-1", "2^64", "10^400", "-1", "1e300"],
)
@pytest.mark.parametrize("key", ["channels", "size_bytes", "chunks", "blocks", "weights"])
def test_huge_numbers(plan: Path, key: str, number: float, capsys: pytest.CaptureFixture[str]) -> None:
    def huge(data: Data) -> None:
        if key == "chunks":
            data["templates"][0]["chunks"] = number
        elif key in ("blocks", "weights"):
            data[key] = [[number] * (3 if key == "blocks" else 2)]
        else:
            data[key] = number

    edited(plan, huge)
    assert "plan.json" in refused(plan, capsys)
