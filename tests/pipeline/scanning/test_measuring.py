"""What ``--measure`` and the options of goodput mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import InputError
from netprobe.pipeline.scanning.goodput import GoodputRequest
from netprobe.pipeline.scanning.measuring import parse_measuring, phases_for
from netprobe.probe.records.options import ScanOptions


def ids(measure: str, **options: str) -> list[str]:
    phases = phases_for(ScanOptions(), parse_measuring(measure, **options))  # type: ignore[arg-type]
    return [phase.method.measurement.id for phase in phases]


def test_the_phases_are_the_measurements_in_turn() -> None:
    assert ids("rtt") == ["rtt"]
    assert ids("rtt,goodput") == ["rtt", "goodput"]
    assert ids("path,goodput,rtt") == ["rtt", "path", "goodput"]
    assert ids("rtt,goodput", size="1MB,100MB", streams="1,4") == [
        "rtt", "goodput", "goodput:1MB:4", "goodput:100MB:1", "goodput:100MB:4"
    ]  # fmt: skip
    assert ids("goodput, rtt", streams="1,4") == ["rtt", "goodput", "goodput:timed:4"]


@pytest.mark.parametrize(
    ("measure", "options", "said"),
    [
        ("rtt,bandwidth", {}, "'bandwidth' is not one of rtt, path, goodput"),
        ("rtt,rtt", {}, "may be given once"),
        ("", {}, "is not one of rtt, path, goodput"),
        ("goodput", {}, "rtt is needed"),
        ("path", {}, "rtt is needed"),
        ("rtt", {"trace": "udp"}, "--trace .* rtt,path"),
        ("rtt,path", {"trace": "mtr"}, "--trace 'mtr' is not one of udp, scapy"),
        ("rtt", {"size": "1MB", "streams": "2"}, "--size and --streams are of goodput"),
        ("rtt,goodput", {"goodput": "udp"}, "'udp' is not one of auto, iperf3, tcp"),
        ("rtt,goodput", {"size": "1 parsec"}, "--size '1 parsec': a number and one of B, kB"),
        ("rtt,goodput", {"streams": "0"}, "streams '0': whole numbers from 1 to 64"),
    ],
)
def test_what_cannot_be_is_said(measure: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ids(measure, **options)


def test_the_way_is_found_out_unless_it_is_given() -> None:
    asked = parse_measuring("rtt,goodput").goodput
    assert isinstance(asked, GoodputRequest) and asked.options.way == "auto"


def test_the_command_line_measures_goodput_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["scan", "--hosts", "a,b", "--via", "local", "--only", "scan", "--probes", "10"]
    argv += ["--measure", "rtt,goodput", "--goodput", "tcp", "--goodput-seconds", "0.3"]
    assert run([*argv, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "goodput (the agents' own TCP flows): 2 of 2 links, median " in out and "slowest: " in out
    scan = load_document(Scan, tmp_path / "out" / "scan.json")
    assert scan.goodput_bytes_per_s["goodput"][0, 1] > 0
    assert [m.id for m in scan.measurements] == ["rtt", "goodput"]


def test_the_command_line_measures_ways_and_handshakes_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["scan", "--hosts", "a,b", "--via", "local", "--only", "scan", "--probes", "10", "--ipv4"]
    argv += ["--measure", "rtt,path", "--latency", "tcp", "--source-ports", "2", "--trace", "udp"]
    assert run([*argv, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert ", by tcp-connect, stamps: kernel" in out
    assert "hops: 1 on 2 links; path MTU: 65535 bytes on 2 links" in out
    scan = load_document(Scan, tmp_path / "out" / "scan.json")
    assert [(m.id, m.method) for m in scan.measurements] == [("rtt", "tcp-connect"), ("path", "udp-ttl")]
    assert scan.hops is not None and scan.hops[0, 1] == 1 and scan.port_spread_s is not None
    assert {visit.path.addresses[0] for visit in scan.visits if visit.path} == {"127.0.0.1", "127.0.0.2"}
