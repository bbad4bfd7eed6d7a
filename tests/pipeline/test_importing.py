"""Foreign matrices as scans: units, provenance, hosts, holes, and what the stages after a scan make of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import make_host
from netprobe.formats.matrix import ReadOptions
from netprobe.pipeline.importing import ImportOptions, import_matrix
from tests.documents import rack_labels, rack_rtt
from tests.formats.matrices import mpigraph_text

NAMED = "host,a,b,c\na,0,100,300\nb,110,0,310\nc,320,330,0\n"


def imported(folder: Path, text: str, unit: str | None = "us", **options: object) -> Scan:
    path = folder / "their matrix.csv"
    path.write_text(text)
    return import_matrix(path, options=ImportOptions(unit=unit, **options))  # type: ignore[arg-type]


def test_latencies_become_rtt_with_their_provenance(tmp_path: Path) -> None:
    scan = imported(tmp_path, NAMED)
    assert (scan.status, scan.reason) == ("ok", "imported from their matrix.csv")
    assert [host.name for host in scan.hosts] == ["a", "b", "c"]
    (measurement,) = scan.measurements
    assert (measurement.id, measurement.method, measurement.unit, measurement.statistic) == (
        "rtt",
        "imported",
        "s",
        "p50",
    )
    assert measurement.parameters["sha256"] == hashlib.sha256(NAMED.encode()).hexdigest()
    assert measurement.parameters["format"] == "csv" and measurement.parameters["unit"] == "us"
    for key in ("min", "p10", "p50", "p90", "p99"):
        assert getattr(scan.rtt_s, key)[1, 0] == pytest.approx(110e-6)
    assert np.isnan(np.diagonal(scan.rtt_s.p50)).all()
    assert np.isnan(scan.loss_ratio).all() and len(scan.visits) == 0
    write_document(scan, tmp_path / "scan.json")
    again = load_document(Scan, tmp_path / "scan.json")
    assert again.parent() == scan.parent()


def test_bandwidths_become_goodput(tmp_path: Path) -> None:
    scan = imported(tmp_path, NAMED, unit="Gbit/s")
    assert scan.measurements[0].id == "goodput" and scan.measurements[0].key == "goodput_bytes_per_s"
    assert scan.goodput_bytes_per_s["goodput"][0, 1] == pytest.approx(100e9 / 8)
    assert np.isnan(scan.rtt_s.p50).all()


def test_rows_may_be_destinations(tmp_path: Path) -> None:
    assert imported(tmp_path, NAMED, transposed=True).rtt_s.p50[0, 1] == pytest.approx(110e-6)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (None, r"\(csv\) carries no unit: give --unit"),
        ("parsec", "unknown unit 'parsec'"),
        ("ns", None),
        ("GB/s", None),
    ],
)
def test_no_unit_is_guessed(tmp_path: Path, unit: str | None, message: str | None) -> None:
    if message is None:
        assert imported(tmp_path, NAMED, unit=unit).status == "ok"
        return
    with pytest.raises(InputError, match=message) as caught:
        imported(tmp_path, NAMED, unit=unit)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_unit_that_the_format_carries_is_not_overruled(tmp_path: Path) -> None:
    text = mpigraph_text(["a", "b"], None, np.array([[0, 2.0], [4.0, 0]]))
    found = imported(tmp_path, text, unit=None)
    assert found.goodput_bytes_per_s["goodput"][0, 1] == pytest.approx(4 * 1024**2)
    assert imported(tmp_path, text, unit="MiB/s").hosts == found.hosts
    with pytest.raises(InputError, match="carries the unit MiB/s: leave --unit MB/s out"):
        imported(tmp_path, text, unit="MB/s")


def test_values_that_no_network_has_are_a_wrong_unit(tmp_path: Path) -> None:
    for text, unit, message in (
        ("0 9e4\n9e4 0\n", "s", "from 'h0' to 'h1' is 9e[+]04 s, which is not a round trip: is the unit s"),
        ("0 1e-4\n1e-4 0\n", "us", "is 1e-10 s"),
        ("0 1e7\n1e7 0\n", "GB/s", "which is not a goodput"),
    ):
        with pytest.raises(InputError, match=message):
            imported(tmp_path, text, unit=unit)
    assert "different units" in imported(tmp_path, "0 1e-5\n90 0\n", unit="s").warnings[0]


def test_holes_make_it_partial_and_name_the_hosts(tmp_path: Path) -> None:
    scan = imported(tmp_path, "host,a,b,c\na,0,1,-\nb,1,0,-\nc,-,-,0\n")
    assert scan.status == "partial"
    assert scan.reason == "imported from their matrix.csv: 4 of 6 links have no reading"
    assert [(host.status, host.reason is None) for host in scan.hosts] == [("partial", False)] * 3
    assert scan.hosts[2].reason == "4 of its 4 links have no reading in the imported matrix"
    with pytest.raises(NothingMeasuredError, match="no cell holds a reading"):
        imported(tmp_path, "0 -\n- 0\n")


def test_readings_of_one_direction_are_said_to_count_for_both(tmp_path: Path) -> None:
    rows = "src,dst,rtt\na,b,10\na,c,20\nd,a,30\nc,b,40\nb,c,41\n"
    (warning,) = imported(tmp_path, rows, unit="us").warnings
    assert "3 pairs" in warning and "a to b" in warning and "d to a" in warning and "c to b" not in warning
    assert imported(tmp_path, "host,a,b,c\na,0,1,-\nb,1,0,-\nc,-,-,0\n", unit="us").warnings == []
    # Half a table says so in its own words.
    (note,) = imported(tmp_path, "host,a,b,c\na,,1,2\nb,,,3\nc,,,\n", unit="us").warnings
    assert "half of the table" in note


def test_hosts_name_the_rows_of_a_bare_matrix_and_label_a_named_one(tmp_path: Path) -> None:
    hosts = [make_host(name, labels={"rack": name * 2}) for name in ("c", "a", "b")]
    bare = imported(tmp_path, "0 1 2\n1 0 3\n2 3 0\n", hosts=hosts)
    assert [host.name for host in bare.hosts] == ["c", "a", "b"]
    named = imported(tmp_path, NAMED, hosts=hosts)
    assert [host.labels["rack"] for host in named.hosts] == ["aa", "bb", "cc"]
    with pytest.raises(InputError, match="3 rows without names, and there are 2 hosts"):
        imported(tmp_path, "0 1 2\n1 0 3\n2 3 0\n", hosts=hosts[:2])
    with pytest.raises(InputError, match="host 'b' of the matrix .* 2 hosts"):
        imported(tmp_path, NAMED, hosts=hosts[:2])


@pytest.mark.parametrize(("name", "host"), [("a b", "a-b"), ("-oProxyCommand", "oProxyCommand")])
def test_a_name_that_no_host_may_have_becomes_one_that_it_may_have(
    tmp_path: Path, name: str, host: str
) -> None:
    scan = imported(tmp_path, f"h,{name},c\n{name},0,1\nc,1,0\n")
    assert [one.name for one in scan.hosts] == [host, "c"]


def test_names_that_would_be_one_host_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would both be the host 'a-b'"):
        imported(tmp_path, "h,a b,a/b\na b,0,1\na/b,1,0\n")


@pytest.mark.parametrize("make", [Path.mkdir, None])
def test_a_file_that_is_none_is_refused(tmp_path: Path, make: object) -> None:
    path = tmp_path / "x"
    if make is not None:
        path.mkdir()
    with pytest.raises(InputError, match="not a regular file|no such file"):
        import_matrix(path)


def test_a_map_of_an_imported_matrix_has_the_racks(tmp_path: Path) -> None:
    from netprobe.pipeline import map_scan, plan_order

    racks = (5, 4, 3)
    np.save(tmp_path / "m.npy", np.nan_to_num(rack_rtt(racks, seed=2)) * 1e6)
    scan = import_matrix(tmp_path / "m.npy", options=ImportOptions(unit="us", read=ReadOptions(format="npy")))
    map_ = map_scan(scan)
    group_of = {name: group.id for group in map_.groups for name in group.hosts}
    found = [group_of[host.name] for host in scan.hosts]
    assert adjusted_rand_index(rack_labels(racks), found) == 1.0
    assert plan_order(map_).crossings == 3


def test_a_name_of_thousands_of_characters_is_no_warning_of_a_screenful(tmp_path: Path) -> None:
    name = "a" * 5_000
    file = tmp_path / "m.csv"
    file.write_text(f",{name},b\n{name},0,1\nb,1,0\n")
    scan = import_matrix(file, options=ImportOptions(unit="ms"))
    assert scan.warnings and all(len(text) < 300 for text in scan.warnings)
