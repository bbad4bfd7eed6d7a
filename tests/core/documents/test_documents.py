from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.document import (
    canonical_sha256,
    check_same_hosts,
    dump,
    load_document,
    parse_document,
    to_json,
    write_document,
)
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.core.hosts import Host
from netprobe.pipeline import map_scan
from netprobe.pipeline.published import schemas
from tests.documents import make_scan, rack_rtt, rack_scan


@pytest.fixture
def scan() -> Scan:
    return rack_scan([3, 2], seed=1)[0]


def test_a_scan_written_is_read_back_with_the_same_hash(tmp_path: Path, scan: Scan) -> None:
    write_document(scan, tmp_path / "scan.json")
    again = load_document(Scan, tmp_path / "scan.json")
    assert canonical_sha256(again) == canonical_sha256(scan)
    assert np.allclose(again.rtt_s.p10, scan.rtt_s.p10, rtol=1e-8, equal_nan=True)
    assert [v.dst for v in again.visits] == [v.dst for v in scan.visits]
    write_document(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "scan.json").read_bytes()


def test_missing_cells_are_null_and_scripts_find_their_names(tmp_path: Path, scan: Scan) -> None:
    write_document(scan, tmp_path / "scan.json")
    data = json.loads((tmp_path / "scan.json").read_text())
    assert data["schema"] == "netprobe.scan/1.0"
    assert data["rtt_s"]["p10"][0][0] is None
    assert isinstance(data["rtt_s"]["p10"][0][1], float)
    assert set(data["rtt_s"]) == {"min", "p10", "p50", "p90", "p99"}
    assert {"name", "target", "address", "status"} <= set(data["hosts"][0])
    assert len(data["loss_ratio"]) == 5


def test_the_hash_leaves_the_time_out_and_nothing_else(scan: Scan) -> None:
    later = scan.model_copy(update={"created_at": "2031-01-01T00:00:00Z"})
    other = scan.model_copy(update={"seed": 7})
    assert canonical_sha256(later) == canonical_sha256(scan)
    assert canonical_sha256(other) != canonical_sha256(scan)


def test_a_document_fits_its_published_schema(scan: Scan) -> None:
    jsonschema.validate(dump(scan), schemas()["scan"])
    broken = dump(scan)
    del broken["hosts"][0]["name"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schemas()["scan"])


def test_large_matrices_go_to_a_side_file_and_come_back(tmp_path: Path) -> None:
    scan = make_scan(rack_rtt([130, 130], seed=2), visits=False)
    write_document(scan, tmp_path / "scan.json")
    data = json.loads((tmp_path / "scan.json").read_text())
    assert data["rtt_s"]["p10"]["npz"] == "scan.json.npz"
    assert data["rtt_s"]["p10"]["shape"] == [260, 260]
    again = load_document(Scan, tmp_path / "scan.json")
    assert np.array_equal(again.rtt_s.p10, scan.rtt_s.p10, equal_nan=True)
    assert canonical_sha256(again) == canonical_sha256(scan)


def test_a_swapped_missing_or_escaping_side_file_is_refused(tmp_path: Path) -> None:
    scan = make_scan(rack_rtt([130, 130], seed=2), visits=False)
    write_document(scan, tmp_path / "scan.json")
    write_document(make_scan(rack_rtt([130, 130], seed=3), visits=False), tmp_path / "other.json")
    data = json.loads((tmp_path / "scan.json").read_text())
    (tmp_path / "scan.json.npz").write_bytes((tmp_path / "other.json.npz").read_bytes())
    with pytest.raises(DocumentError, match=r"cannot be read|sha256 differs"):
        load_document(Scan, tmp_path / "scan.json")
    (tmp_path / "scan.json.npz").unlink()
    with pytest.raises(DocumentError, match="missing from the document"):
        load_document(Scan, tmp_path / "scan.json")
    data["rtt_s"]["p10"]["npz"] = "../other.json.npz"
    (tmp_path / "scan.json").write_text(json.dumps(data))
    with pytest.raises(DocumentError, match="not a plain file name"):
        load_document(Scan, tmp_path / "scan.json")


def _set(data: Any, path: str, value: Any) -> None:
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in parents:
        data = data[key]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("schema", "netprobe.scan/2.0", "newer than"),
        ("schema", "netprobe.map/1.0", "is a map document"),
        ("schema", "other/1", "no netprobe document"),
        ("schema", None, "no netprobe document"),
        ("hosts.0.name", "a b", "characters outside"),
        ("hosts.0.target", "-oProxyCommand=x", "starts with '-'"),
        ("hosts.0.name", "n1x;", "characters outside"),
        ("hosts.0.status", "fine", "hosts.0.status"),
        ("rtt_s.p10.0.1", -1.0, "negative"),
        ("rtt_s.p10.0.1", "x", "neither a number nor null"),
        ("rtt_s.p10.0.1", True, "neither a number nor null"),
        ("rtt_s.p10", [[None]], "for 5 hosts"),
        ("rtt_s.p10", 7, "rows of numbers"),
        ("rtt_s.p10.2", [1.0], "as many in each row"),
        ("loss_ratio.0.1", 1.5, "above 1"),
        ("visits.0.src", "nobody", "not between two of its hosts"),
        ("visits.0.received", 999, "more than was sent"),
        ("visits.0.round", 1 << 64, "number too large"),
        ("visits.0.method", "\ud800", "half of a surrogate pair"),
        ("rtt_s.p10.0.1", "x" * 100_000, "neither a number nor null"),
        ("hosts", [], "for 0 hosts"),
        ("seed", -1, "seed"),
        ("parents", [{"schema": "netprobe.scan/1.0", "sha256": "x"}], "sha256"),
    ],
)
def test_a_damaged_document_is_one_clear_line(scan: Scan, path: str, value: Any, says: str) -> None:
    data = dump(scan)
    _set(data, path, value)
    with pytest.raises(DocumentError) as caught:
        parse_document(Scan, data, source="scan.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("scan.json: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_newer_minor_version_is_read_and_its_keys_kept(scan: Scan) -> None:
    data = dump(scan)
    data["schema"] = "netprobe.scan/1.9"
    data["new_key"] = {"x": 1}
    again = parse_document(Scan, data, source="s")
    assert dump(again)["new_key"] == {"x": 1}
    assert dump(again)["schema"] == "netprobe.scan/1.9"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated"),
        (b'{"schema": "netprobe.scan/1.0", "hosts": [', "truncated"),
        (b"[1, 2]", "not an object"),
        (b"\xff\xfe", "not a text file"),
        (b'{"x": NaN}', "NaN is not a JSON number; a missing value is null$"),
        (b"[" * 100_000, "nested too deep to be read$"),
        (b'{"x": 1' + b"0" * 5000 + b"}", "more digits than can be read$"),
    ],
)
def test_a_file_that_is_no_document_is_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "scan.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=says):
        load_document(Scan, path)


def test_a_missing_document_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no such document"):
        load_document(Map, tmp_path / "none.json")
    with pytest.raises(DocumentError, match="cannot be read"):
        load_document(Map, tmp_path)


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=8))
def test_a_document_with_any_bytes_changed_loads_or_is_refused(position: int, junk: bytes) -> None:
    scan = rack_scan([2, 2], seed=1)[0]
    text = to_json(dump(scan)).encode()
    at = position % len(text)
    try:
        data = json.loads((text[:at] + junk + text[at + len(junk) :]).decode())
    except ValueError:
        return
    try:
        again = parse_document(Scan, data if isinstance(data, dict) else {}, source="s")
    except DocumentError as error:
        assert "\n" not in str(error)
        return
    assert again.rtt_s.p10.shape == (len(again.hosts), len(again.hosts))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(JSON)
def test_to_json_writes_what_json_reads_back(data: Any) -> None:
    assert json.loads(to_json(data)) == data


def test_other_hosts_are_refused_by_name() -> None:
    ours, theirs = [Host(name="a"), Host(name="b")], [Host(name="b"), Host(name="c")]
    with pytest.raises(DocumentError, match="it lacks a and has c besides"):
        check_same_hosts(ours, theirs, what="the hosts file")
    check_same_hosts(ours, list(reversed(ours)), what="the hosts file")


@pytest.mark.parametrize("key", ["created_at", "generator", "seed", "parents"])
def test_a_document_without_its_header_is_refused(scan: Scan, key: str) -> None:
    data = dump(scan)
    del data[key]
    with pytest.raises(DocumentError, match=f"its header lacks {key}"):
        parse_document(Scan, data, source="s")


def test_an_older_major_version_is_refused_by_name(scan: Scan) -> None:
    data = dump(scan) | {"schema": "netprobe.scan/0.3"}
    with pytest.raises(DocumentError, match=r"version 0\.x"):
        parse_document(Scan, data, source="s")


def test_a_layer_or_a_level_of_a_later_version_is_read() -> None:
    scan = rack_scan([3, 3], seed=1)[0]
    data = dump(scan) | {"schema": "netprobe.scan/1.3"}
    data["visits"][0]["stamps"] = "hardware"
    assert parse_document(Scan, data, source="s").visits[0].stamps == "hardware"
    map_data = dump(map_scan(scan))
    map_data["layers"]["hops"] = {"distance": [[None]]}
    assert "hops" in dump(parse_document(Map, map_data, source="m"))["layers"]


def test_distances_that_differ_by_direction_are_no_map() -> None:
    data = dump(map_scan(rack_scan([3, 3], seed=1)[0]))
    data["layers"]["rtt"]["distance_s"][0][1] = 1.0
    with pytest.raises(DocumentError, match="not symmetric"):
        parse_document(Map, data, source="m")


def test_a_document_in_memory_and_read_back_gives_the_same_children(tmp_path: Path) -> None:
    scan = rack_scan([3, 6, 4], seed=4)[0]
    write_document(scan, tmp_path / "scan.json")
    again = load_document(Scan, tmp_path / "scan.json")
    assert canonical_sha256(map_scan(again)) == canonical_sha256(map_scan(scan))


@pytest.mark.parametrize("place", [0.0, 0.001, 0.3, 0.6, 0.99])
def test_a_damaged_side_file_is_one_clear_line(tmp_path: Path, place: float) -> None:
    write_document(make_scan(rack_rtt([130, 130], seed=2), visits=False), tmp_path / "scan.json")
    side = tmp_path / "scan.json.npz"
    content = bytearray(side.read_bytes())
    for at in range(int(place * len(content)), min(int(place * len(content)) + 40, len(content))):
        content[at] ^= 0xFF
    side.write_bytes(content)
    with pytest.raises(DocumentError, match="side file") as caught:
        load_document(Scan, tmp_path / "scan.json")
    assert "\n" not in str(caught.value)


def test_the_same_name_at_another_address_is_another_host() -> None:
    with pytest.raises(DocumentError, match=r"10\.0\.0\.2"):
        check_same_hosts(
            [Host(name="a", address="10.0.0.1")], [Host(name="a", address="10.0.0.2")], what="the list"
        )
    check_same_hosts(
        [Host(name="a", address="a.example")], [Host(name="a", address="10.0.0.2")], what="the list"
    )


def test_a_device_or_a_pipe_is_no_document(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(DocumentError, match="no regular file"):
            load_document(Scan, path)
