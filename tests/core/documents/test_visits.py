"""Visits as columns say the same as visits as records, in memory and on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents import visits as visits_module
from netprobe.core.documents.document import canonical_sha256, canonical_text, load_document, write_document
from netprobe.core.documents.matrix import Ready, array_digest
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.visits import NUMBERS, Visit, VisitTable, _records, _serialize
from netprobe.core.errors import DocumentError
from tests.documents import make_scan, rack_rtt

TEXT = st.text(max_size=12)
COUNT = st.integers(0, 1 << 40)
PORT = st.none() | st.integers(0, 65535)
SECONDS = st.floats(0, 1e9)
GOODPUT = {"bytes_per_s": 1.5e8, "bytes": 75_000_000, "duration_s": 0.5, "streams": 1, "flags": ["cpu_bound"]}
VISITS = st.builds(
    Visit,
    measurement=TEXT,
    src=TEXT,
    dst=TEXT,
    round=COUNT,
    started_s=SECONDS,
    duration_s=SECONDS,
    method=TEXT,
    src_port=PORT,
    dst_port=PORT,
    stamps=st.none() | TEXT,
    sent=COUNT,
    received=COUNT,
    samples=COUNT,
    rejected=COUNT,
    beside=COUNT,
    reason=st.none() | TEXT,
    goodput=st.none() | st.just(GOODPUT),
    path=st.none()
    | st.builds(dict, hops=st.none() | st.integers(1, 255), addresses=st.just(["10.0.0.1", None])),
    a_later_key=st.none() | st.lists(st.integers(), max_size=3),
)


@given(st.lists(VISITS, max_size=8))
def test_a_table_gives_back_every_visit(visits: list[Visit]) -> None:
    table = VisitTable.of(visit.model_dump(mode="json") for visit in visits)
    assert len(table) == len(visits)
    for found, given_ in zip(table, visits, strict=True):
        without_null = {k: v for k, v in given_.model_dump(mode="json").items() if v is not None}
        assert {k: v for k, v in found.model_dump(mode="json").items() if v is not None} == without_null
    numbers = {key: table.columns[key] for key in NUMBERS}
    texts = {key: table.text(key) for key in table.columns.keys() - NUMBERS.keys()}
    from_columns = VisitTable.of_columns(numbers, texts)
    assert from_columns.texts == table.texts  # in one order: the bytes of a side file depend on it
    assert all(np.array_equal(from_columns.columns[key], table.columns[key]) for key in table.columns)


@pytest.fixture
def in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scan of three hosts whose visits went to the side file."""
    monkeypatch.setattr(visits_module, "INLINE_VISITS", 4)
    write_document(make_scan(rack_rtt([2, 1], seed=1)), tmp_path / "scan.json")
    return tmp_path / "scan.json"


def test_many_visits_stand_in_the_side_file_and_read_back(in_columns: Path) -> None:
    scan = make_scan(rack_rtt([2, 1], seed=1))
    data = json.loads(in_columns.read_text())
    assert data["visits"]["count"] == 6
    loaded = load_document(Scan, in_columns)
    assert loaded.visits == scan.visits
    assert canonical_sha256(loaded) == canonical_sha256(scan)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("src", 99, "column src of visits has a value out of range"),
        ("src_port", 70000, "column src_port of visits has a value out of range"),
        ("started_s", float("nan"), "column started_s of visits has a value out of range"),
        ("measurement", -1, "column measurement of visits has a value out of range"),
        ("received", 1000, "received more than was sent"),
    ],
)
def test_columns_that_cannot_be_are_refused(in_columns: Path, column: str, value: Any, said: str) -> None:
    data = json.loads(in_columns.read_text())
    reference = data["visits"]["columns"][column]
    side = in_columns.with_name(reference["npz"])
    arrays = dict(np.load(side))
    arrays[reference["key"]][0] = value
    np.savez(side, **arrays)
    reference["sha256"] = array_digest(arrays[reference["key"]])
    in_columns.write_text(json.dumps(data))
    with pytest.raises(DocumentError, match=said):
        load_document(Scan, in_columns)


def test_a_side_file_of_another_type_or_a_bomb_is_refused_before_it_is_unpacked(in_columns: Path) -> None:
    data = json.loads(in_columns.read_text())
    reference = data["visits"]["columns"]["round"]
    side = in_columns.with_name(reference["npz"])
    arrays = dict(np.load(side))
    for other in (np.zeros(1 << 24), np.array(["text"] * 6)):
        np.savez_compressed(side, **{**arrays, reference["key"]: other})
        with pytest.raises(DocumentError, match=r"an array of shape"):
            load_document(Scan, in_columns)


def test_the_canonical_text_of_visits_is_that_of_their_records() -> None:
    plain = {"src": "a", "dst": "b\u00e9\"", "round": 3, "started_s": 1e-7 / 3, "duration_s": 2.0, "method": "udp",
             "sent": 5, "received": 4, "beside": 0}  # fmt: skip
    records = [
        plain,
        plain | {"src_port": 0, "dst_port": 65535, "stamps": "kernel", "measurement": "other", "samples": 2},
        plain | {"reason": "", "received": 0, "later": {"z": [1.5, None], "a": ""}},
        plain | {"path": {"hops": 2, "addresses": [None, "10.0.0.1"]}},
    ]
    table = VisitTable.of(records)
    ready = Ready(canonical=True)
    stand_in = _serialize(table, SimpleNamespace(context={"ready": ready, "side": None}))
    assert (
        ready.put_in(json.dumps({"a": stand_in, "b": 1}))
        == f'{{"a": {canonical_text(_records(table))}, "b": 1}}'
    )
