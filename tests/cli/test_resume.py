"""`netprobe scan --resume`: a killed scan is resumed, and no finished link is measured again."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.pipeline.resuming.killed_scan import continued_measuring
from netprobe.pipeline.scanning.measuring import parse_measuring
from netprobe.probe.records.journal import Journal, read_journal
from tests.probe.conftest import agents_of, is_running, wait_until

HOSTS = "h[1-6]"
QUICK = [
    "--via",
    "local",
    "--probes",
    "40",
    "--interval",
    "0.002",
    "--full-visits",
    "--only",
    "scan",
    "--seed",
    "5",
]


def killed_scan(out: Path) -> int:
    """Start a scan and kill it, controller and all, in the middle; how many links it finished."""
    argv = [sys.executable, "-m", "netprobe", "scan", "--hosts", HOSTS, *QUICK, "--interval", "0.006"]
    running = subprocess.Popen([*argv, "--out", str(out), "--quiet"])
    journal = out / "scan.journal.jsonl"
    try:
        # Of ten rounds of a quarter of a second the first.
        assert wait_until(lambda: journal.exists() and b'{"visit"' in journal.read_bytes(), 60)
        running.send_signal(signal.SIGSTOP)
        agents = agents_of(running.pid)
    finally:
        running.kill()
        running.wait()
    assert wait_until(lambda: not any(map(is_running, agents)), 60)
    assert not (out / "scan.json").exists()
    return len(read_journal(journal).visits)


@pytest.mark.slow
def test_a_killed_scan_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    done = killed_scan(out)
    journal = out / "scan.journal.jsonl"
    before = journal.read_bytes()
    with journal.open("ab") as stream:
        stream.write(b'{"visit":{"src":0,"dst"')  # what a kill in the middle of a write leaves
    assert run(["scan", "--out", str(out), "--resume", "--via", "local", "--only", "scan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "ok"
    scan = load_document(Scan, out / "scan.json")
    measured = Counter((visit.src, visit.dst) for visit in scan.visits)
    assert len(measured) == 30 and set(measured.values()) == {1}
    assert scan.seed == 5 and {visit.sent for visit in scan.visits} == {40}
    # What was there is as it was, and only the links that were missing came after it.
    assert journal.read_bytes().startswith(before)
    record = read_journal(journal)
    assert not record.torn and 1 <= done < 30 and len(record.visits) == 30
    starts = [visit.started_s for visit in record.visits]
    assert max(starts[:done]) <= min(starts[done:])


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a scan of two hosts that came to its end."""
    out = tmp_path_factory.mktemp("complete") / "out"
    assert run(["scan", "--hosts", "a,b", *QUICK, "--out", str(out), "--quiet"]) == 0
    return out


def test_a_complete_scan_is_not_measured_again(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(complete, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(["scan", "--hosts", "a,b", *QUICK, "--out", str(out), "--resume"]) == 0
    assert "is complete: nothing is measured again" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--hosts", "a,c"], "a host of name 'b' where --hosts gives 'c'"),
        (["--hosts", "a,b,c"], "the scan is of 2 hosts, and --hosts gives 3"),
        (["--probes", "41"], "--probes 41 (the scan has 40)"),
        (["--seed", "6", "--interval", "0.001"], "--interval 0.001 (the scan has 0.002); --seed 6 (the scan has 5)"),
        (["--gentle"], "--gentle 4 (the scan has 0)"),
        (["--rate", "1Mbit/s"], "--rate "),
        (["--lab", "pair"], "--lab"),
        (["--force"], "--resume goes with --out DIR"),
    ],
)  # fmt: skip
def test_what_differs_from_the_scan_is_refused(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], says: str
) -> None:
    out = shutil.copytree(complete, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    assert run(["scan", "--out", str(out), "--resume", "--via", "local", *args]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.slow
def test_a_host_that_was_replaced_is_measured_anew_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    journal = out / "scan.journal.jsonl"
    assert run(["scan", "--hosts", "a,b,c", *QUICK, "--out", str(out), "--quiet"]) == 0
    before = load_document(Scan, out / "scan.json")
    boot = before.hosts[1].agent.boot_id if before.hosts[1].agent is not None else None
    assert boot is not None
    # As if b had been another machine then, and the scan had been killed before its document was written.
    lines = journal.read_text().splitlines(keepends=True)
    assert sum(f'"host":"b","status":"ok","reason":null,"boot_id":"{boot}"' in line for line in lines) == 1
    journal.write_text(
        "".join(line.replace(boot, boot[::-1]) if '"host":"b"' in line else line for line in lines)
    )
    (out / "scan.json").unlink()
    resume = ["scan", "--out", str(out), "--resume", "--via", "local", "--only", "scan"]
    assert run(resume) == 0
    text = "b: booted since the scan began, or another machine under the same name; the 4 earlier visits"
    assert f"warning: {text}" in capsys.readouterr().err
    scan = load_document(Scan, out / "scan.json")
    assert scan.status == "ok" and any(warning.startswith(text) for warning in scan.warnings)
    earlier = {(v.src, v.dst): v.started_s for v in before.visits}
    later = {(v.src, v.dst): v.started_s for v in scan.visits}
    assert len(scan.visits) == len(later) == 6
    assert {link for link in later if later[link] == earlier[link]} == {("a", "c"), ("c", "a")}
    # What does not count any more stays in the journal, and is not read back.
    assert journal.read_text().count('{"visit"') == 10
    record = read_journal(journal)
    assert len(record.visits) == 6 and record.boots["b"] == boot
    (out / "scan.json").unlink()
    assert run(resume) == 0 and "booted" not in capsys.readouterr().err
    assert len(load_document(Scan, out / "scan.json").visits) == 6


def test_the_way_in_is_named_and_not_taken_from_the_journal(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(complete, tmp_path / "out")
    (out / "scan.json").unlink()
    resume = ["scan", "--out", str(out), "--resume", "--only", "scan"]
    assert run(resume) == 2
    err = capsys.readouterr().err
    assert "the scan reached its hosts by --via local" in err and err.count("\n") == 1
    journal = out / "scan.journal.jsonl"
    assert read_journal(journal).via == "local"
    hostile = "sh -c 'touch x' \x1b[31m" + "x" * 1000
    text = journal.read_text().replace('"via":"local"', f'"via":{json.dumps(hostile)}', 1)
    journal.write_text(text)
    assert run([*resume, "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and len(err) < 800 and err.count("\n") == 1
    assert run([*resume, "--via", "local", "--quiet"]) == 0


@pytest.mark.slow
def test_a_dry_run_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["scan", "--hosts", "h[1-6]", *QUICK, "--out", str(out), "--quiet"]) == 0
    dry = ["scan", "--out", str(out), "--resume", "--via", "local", "--dry-run", "--json"]

    def left() -> dict[str, Any]:
        capsys.readouterr()
        assert run(dry) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert (left()["links"], left()["seconds"]) == (0, 0)  # it is complete
    (out / "scan.json").unlink()
    journal = out / "scan.journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    visits = [line for line in lines if line.startswith('{"visit"')]
    others = [line for line in lines if not line.startswith('{"visit"')]
    journal.write_text("".join([*others, *visits[:21]]))  # seven rounds of ten: three links each
    found = left()
    assert (found["rounds"], found["links"]) == (3, 9) and 0 < found["seconds"] < 3
    # All links of one host are missing: as many rounds as there are, with one link each.
    one = [line for line in visits if '"src":2,' not in line and '"dst":2,' not in line]
    journal.write_text("".join([*others, *one]))
    found = left()
    assert (found["rounds"], found["links"], found["measurements"][0]["links_at_once"]) == (10, 10, 1)
    assert run(dry[:-1]) == 0
    assert "This is left of the scan that is resumed." in capsys.readouterr().out


@pytest.mark.slow
def test_a_budget_is_that_of_the_scan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    budget = ["--pairs", "6"]
    assert run(["scan", "--hosts", "h[1-5]", *QUICK, *budget, "--out", str(out), "--quiet"]) == 0
    assert read_journal(out / "scan.journal.jsonl").measuring["pairs"] == "6"
    (out / "scan.json").unlink()
    resume = ["scan", "--out", str(out), "--resume", "--via", "local", "--only", "scan"]
    for other, says in (
        (["--pairs", "7"], "--pairs 7 (the scan has 6)"),
        (["--time", "60s"], "--time 60s (the scan has none)"),
        (["--measure", "rtt,goodput"], "--measure rtt,goodput (the scan has rtt)"),
        (["--pairs", "60%", "--time", "9s"], "--time 9s (the scan has none)"),
    ):
        assert run([*resume, *other]) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1 and not (out / "scan.json").exists()
    assert run(resume) == 0  # without a word of it: six pairs, and none more
    assert len(load_document(Scan, out / "scan.json").visits) == 12
    (out / "scan.json").unlink()
    assert run([*resume, "--pairs", "60%"]) == 2  # the same number of pairs, and other words for it
    journal = out / "scan.journal.jsonl"
    journal.write_text(journal.read_text().replace('"pairs":"6"', '"pairs":[6]', 1))
    capsys.readouterr()
    assert run(resume) == 2
    assert "cannot be read from the journal's header" in capsys.readouterr().err


@pytest.mark.slow
def test_time_that_was_spent_is_not_spent_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = ["--via", "local", "--only", "scan", "--probes", "40", "--interval", "0.01", "--time", "1s"]
    assert run(["scan", "--hosts", HOSTS, *slow, "--out", str(out), "--quiet"]) == 0
    before = load_document(Scan, out / "scan.json").visits
    assert 3 <= len(before) < 30
    (out / "scan.json").unlink()
    assert run(["scan", "--out", str(out), "--resume", *slow, "--quiet"]) == 0
    # The other ends of a last round of the first pass may still be due, and nothing else.
    assert len(before) <= len(load_document(Scan, out / "scan.json").visits) <= len(before) + 3


def test_a_folder_without_a_journal_or_with_one_in_use_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = ["scan", "--out", str(tmp_path), "--resume", "--via", "local", "--only", "scan"]
    assert run(again) == 2
    assert "scan.journal.jsonl is missing" in capsys.readouterr().err
    (tmp_path / "scan.journal.jsonl").write_text('{"journal": "netprobe.journal/1.0", "hosts": 3}\n')
    assert run(again) == 2
    assert "header cannot be read" in capsys.readouterr().err
    (tmp_path / "scan.journal.jsonl").unlink()
    from netprobe.core.hosts import make_host

    hosts = [make_host("a"), make_host("b")]
    with Journal(tmp_path / "scan.journal.jsonl", hosts, {}):
        assert run(again) == 2
    assert "another scan is writing this journal" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_measured_comes_from_the_journal_and_ways_are_not_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    asked = ["--measure", "rtt,goodput", "--goodput", "tcp", "--goodput-seconds", "0.1", "--pairs", "2"]
    assert run(["scan", "--hosts", "a,b,c", *QUICK, *asked, "--out", str(out), "--quiet"]) == 0
    header = json.loads((out / "scan.journal.jsonl").read_text().split("\n")[0])
    assert header["measuring"] == {
        "measure": "rtt,goodput", "goodput": "tcp", "goodput_seconds": 0.1, "pairs": "2",
    }  # fmt: skip
    again = ["scan", "--out", str(out), "--resume", "--via", "local", "--only", "scan"]
    for args, says in (
        (["--pairs", "3"], "--pairs 3 (the scan has 2)"),
        (["--measure", "rtt"], "--measure rtt (the scan has rtt,goodput)"),
        (["--measure", "rtt,goodput", "--goodput", "iperf3"], "--goodput iperf3 (the scan has tcp)"),
    ):
        capsys.readouterr()
        assert run([*again, *args]) == 2
        assert says in capsys.readouterr().err
    record = read_journal(out / "scan.journal.jsonl")
    assert continued_measuring(record, parse_measuring()) == parse_measuring(
        "rtt,goodput", goodput="tcp", goodput_seconds=0.1, pairs="2"
    )
    found_out = replace(record, measuring={"measure": "rtt,goodput"})
    pinned = continued_measuring(found_out, parse_measuring()).goodput
    assert pinned is not None and pinned.options.way == "tcp"
    for broken in ({"measure": 7}, {"a": "b"}, {"pairs": ["2"]}):
        with pytest.raises(DocumentError, match="cannot be read"):
            continued_measuring(replace(record, measuring=broken), parse_measuring())
