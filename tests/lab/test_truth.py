from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.document import dump
from netprobe.core.errors import DocumentError
from netprobe.lab import Truth, lay_out, load_spec, load_truth, make_truth


@pytest.fixture
def document() -> dict[str, object]:
    spec = load_spec("racks-6-6-4")
    return dump(make_truth(spec, lay_out(spec, seed=3), lab="x", seed=3))


def _load(tmp_path: Path, text: str) -> Truth:
    path = tmp_path / "truth.json"
    path.write_text(text, encoding="utf-8")
    return load_truth(path)


def test_a_truth_reads_back_as_it_was_written(tmp_path: Path, document: dict[str, object]) -> None:
    truth = _load(tmp_path, json.dumps(document))
    assert dump(truth) == document
    assert [len(group.hosts) for group in truth.groups] == [6, 6, 4]
    racks = [host.rack for host in truth.hosts]
    for src, row in enumerate(truth.rtt_s):
        for dst, rtt_s in enumerate(row):
            expected = np.nan if src == dst else 100e-6 if racks[src] == racks[dst] else 300e-6
            assert np.array_equal(rtt_s, expected, equal_nan=True)


def test_a_truth_of_a_later_minor_version_is_read(tmp_path: Path, document: dict[str, object]) -> None:
    assert _load(tmp_path, json.dumps({**document, "schema": "netprobe.truth/1.7", "more": 1})).seed == 3


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({"schema": "netprobe.truth/2.0"}, "newer than"),
        ({"schema": "netprobe.scan/1.0"}, "is a scan document"),
        ({"schema": None}, "no netprobe document"),
        ({"hosts": []}, "groups"),
        ({"rtt_s": [[None]]}, "not 16 x 16"),
        ({"seed": "three"}, "seed"),
        ({"rtt_s": "x", "groups": 3}, "groups.*rtt_s"),
    ],
)
def test_a_document_that_is_no_truth_is_refused(
    tmp_path: Path, document: dict[str, object], change: dict[str, object], needed: str
) -> None:
    with pytest.raises(DocumentError, match=needed) as caught:
        _load(tmp_path, json.dumps({**document, **change}))
    assert "\n" not in str(caught.value)


def test_a_truncated_or_missing_truth_is_refused(tmp_path: Path, document: dict[str, object]) -> None:
    for text in (
        "",
        "[]",
        "{",
        json.dumps(document)[:-40],
        "[" * 100_000,
        '{"schema": "netprobe.truth/1.0"}',
    ):
        with pytest.raises(DocumentError):
            _load(tmp_path, text)
    with pytest.raises(DocumentError, match="no such document"):
        load_truth(tmp_path / "none.json")
