"""import matrix and eval as a user types them: exit codes, JSON, tables, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.scan import Scan
from tests.documents import rack_scan

MATRIX = "host,a,b,c\na,0,100,300\nb,110,0,310\nc,320,330,0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.csv").write_text(MATRIX)
    scan, racks = rack_scan((4, 4), seed=1)
    write_document(scan, tmp_path / "scan.json")
    (tmp_path / "hosts").write_text(
        "".join(f"{host.name} label.rack=r{rack}\n" for host, rack in zip(scan.hosts, racks))
    )
    return tmp_path


def test_a_matrix_becomes_a_scan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "imported.json"
    assert run(["import", "matrix", str(folder / "m.csv"), "--unit", "us", "--out", str(out)]) == 0
    assert "3 hosts, rtt in us (csv): imported from m.csv" in capsys.readouterr().out
    assert load_document(Scan, out).rtt_s.p50[0, 2] == pytest.approx(300e-6)
    args = [
        "import",
        "matrix",
        str(folder / "m.csv"),
        "--unit",
        "gbps",
        "--out",
        str(out),
        "--force",
        "--json",
    ]
    assert run(args) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["status"] == "ok" and data["hosts"] == ["a", "b", "c"]
    assert data["measurement"]["id"] == "goodput" and data["measurement"]["parameters"]["unit"] == "Gbit/s"


def test_what_was_decided_about_a_table_is_printed_and_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = folder / "regions.csv", folder / "regions.json"
    path.write_text(
        "from/to,US East (N. Example),EU North 1,AP South,avg\n"
        "US East (N. Example),—,81.2 ms,201 ms,141.1 ms\n"
        "EU North 1,82 ms,—,118.4 ms,100.2 ms\nAP South,0.2 s,timeout,—,200 ms\n"
    )
    assert run(["import", "matrix", str(path), "-o", str(out)]) == 3
    said = capsys.readouterr()
    assert "left out avg: it sums up the table" in said.err
    assert "'EU North 1' is EU-North-1" in said.err and "1 of 6 links have no reading" in said.out
    scan = load_document(Scan, out)
    assert [host.name for host in scan.hosts] == ["US-East-N.-Example", "EU-North-1", "AP-South"]
    assert scan.measurements[0].parameters["names_as_given"]["AP-South"] == "AP South"
    assert scan.rtt_s.p50[0, 1] == 0.0812
    left_out, one_way, names = scan.warnings
    assert "left out avg" in left_out and "names_as_given" in names
    assert "in one direction only (EU-North-1 to AP-South)" in one_way
    args = ["import", "matrix", str(path), "-o", str(out), "--force"]
    assert run([*args, "-u", "ms"]) == 2
    assert "carry the units ms, s: leave --unit ms out" in capsys.readouterr().err


def test_what_a_comma_is_can_be_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = folder / "comma.csv", folder / "comma.json"
    path.write_text(";a;b\na;;1,234\nb;2,345;\n")
    args = ["import", "matrix", str(path), "-u", "us", "-o", str(out), "--force"]
    assert run(args) == 2
    assert "line 2: '1,234' may have decimals or thousands: give --decimal comma" in capsys.readouterr().err
    for decimal, value in (("comma", 1.234e-6), ("point", 1234e-6)):
        assert run([*args, "--decimal", decimal]) == 0
        assert load_document(Scan, out).rtt_s.p50[0, 1] == pytest.approx(value)
    capsys.readouterr()


def test_holes_are_exit_3_and_nothing_is_exit_4(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = folder / "holes.txt", folder / "out.json"
    path.write_text("0 1 -\n1 0 -\n2 3 0\n")
    assert run(["import", "matrix", str(path), "-u", "ms", "-o", str(out)]) == 3
    assert "2 of 6 links have no reading" in capsys.readouterr().out
    path.write_text("0 -\n- 0\n")
    assert run(["import", "matrix", str(path), "-u", "ms", "-o", str(folder / "none.json")]) == 4
    assert not (folder / "none.json").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "carries no unit"),
        (["--unit", "GBPS"], "unknown unit"),
        (["--unit", "us", "--format", "xls"], "unknown format"),
        (["--unit", "us", "--zeros", "perhaps"], "neither refuse nor missing"),
        (["--unit", "us", "--select", "G"], "COLUMN=VALUE"),
        (["--unit", "us", "--column", "x"], "are for long, json and nccl"),
        (["--unit", "us", "--format", "mpigraph"], "no table of mpiGraph"),
        (["--unit", "us", "--hosts", "x,y"], "is not one of the 2 hosts"),
        (["--unit", "us", "--out", "{m}"], "the input itself"),
    ],
)
def test_a_bad_import_is_one_line_and_writes_nothing(
    folder: Path, args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [word.replace("{m}", str(folder / "m.csv")) for word in args]
    if "--out" not in args:
        args += ["--out", str(folder / "bad.json")]
    assert run(["import", "matrix", str(folder / "m.csv"), *args]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
    assert not (folder / "bad.json").exists() and (folder / "m.csv").read_text() == MATRIX


def test_eval_prints_tables_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["eval", str(folder / "scan.json"), "--hosts", str(folder / "hosts"), "--labels", "rack"]
    assert run([*args, "--clusterings", "3"]) == 0
    out = capsys.readouterr().out
    assert "PAIA" in out and "natural" in out and "\x1b" not in out
    assert max(map(len, out.splitlines()[:-1])) <= 80  # what wraps is the last line alone
    assert [line.split() for line in out.splitlines() if "run-to-run" in line] == [
        ["document", "clusterings", "k", "run-to-run", "AMI", "least"]
    ]
    assert run([*args, "--clusterings", "3", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["documents"]
    assert set(found) == {
        "file",
        "kind",
        "measurement",
        "hosts",
        "truth",
        "paia",
        "triplets",
        "groups",
        "grouping",
        "linkage",
        "run_to_run",
    }
    assert found["paia"] == 1.0 and found["triplets"]["triplets"] == 8 * 3 * 4
    assert found["grouping"] == [{"level": "rack", "classes": 2, "ari": 1.0, "ami": 1.0, "purity": 1.0}]
    assert found["run_to_run"]["clusterings"] == 3
    assert run([*args, "--clusterings", "0"]) == 0
    assert "run-to-run" not in capsys.readouterr().out
    assert run([*args, "--clusterings", "0", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "give --truth FILE or --labels"),
        (["--labels", "rack", "--truth", "{hosts}"], "from one place"),
        (["--labels", "rack"], "no label 'rack'"),
        (["--labels", "rack", "--hosts", "a,b"], "is not one of the 2 hosts"),
        (["--truth", "{hosts}"], "neither a truth document"),
        (["--truth", "{scan}"], "is a scan document"),
        (["--truth", "/nowhere"], "no such"),
        (["--labels", "rack", "--hosts", "{hosts}", "--measurement", "goodput"], "there are rtt"),
        (["--labels", "rack", "--clusterings", "-1"], "clusterings"),
    ],
)
def test_a_bad_evaluation_is_one_line(
    folder: Path, args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"{hosts}": str(folder / "hosts"), "{scan}": str(folder / "scan.json")}
    assert run(["eval", str(folder / "scan.json"), *[places.get(word, word) for word in args]]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_a_matrix_of_goodput_is_mapped_judged_and_ordered(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"n{i}" for i in range(8)]
    rows = [[name, *("" if a == b else str(80 + a if a % 2 == b % 2 else 20 + b) for b in range(8))]
            for a, name in enumerate(names)]  # fmt: skip
    (folder / "nccl.csv").write_text("\n".join(",".join(row) for row in [["x", *names], *rows]) + "\n")
    scan, map_ = folder / "goodput.json", folder / "map.json"
    assert run(["import", "matrix", str(folder / "nccl.csv"), "-u", "Gbit/s", "-o", str(scan)]) == 0
    assert f"next: netprobe map {scan}" in capsys.readouterr().out
    assert run(["map", str(scan), "--no-compare"]) == 0
    out = capsys.readouterr().out
    assert "goodput from 8" in out and "2 groups" in out and "judged by goodput alone" in out
    assert "Gbit/s" in next(line for line in out.splitlines() if line.startswith("g1 "))
    assert run(["plan", "order", str(map_)]) == 0
    assert "for 1 MB a hop by goodput" in capsys.readouterr().out
    hosts = folder / "racks"
    hosts.write_text("".join(f"{name} label.rack=r{i % 2}\n" for i, name in enumerate(names)))
    judge = ["eval", str(scan), str(map_), "--labels", "rack", "--hosts", str(hosts), "--json"]
    assert run([*judge, "--measurement", "goodput", "--clusterings", "0"]) == 0
    of_scan, of_map = json.loads(capsys.readouterr().out)["documents"]
    assert (of_scan["measurement"], of_map["measurement"]) == ("goodput", "beta")
    assert of_map["grouping"][0]["ari"] == of_map["paia"] == 1.0
