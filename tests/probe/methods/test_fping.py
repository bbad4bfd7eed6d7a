"""Scans by fping: the real one, and ones that may not run, on hosts of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from netprobe.core.documents.scan import Scan
from netprobe.core.errors import NothingMeasuredError
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan
from tests.probe.conftest import hosts_named

OPTIONS = ScanOptions(latency="fping", probes_per_visit=10, retries=2, timeout_s=10)


def scan() -> Scan:
    return run_scan(hosts_named("a", "b"), parse_via("local"), OPTIONS).scan


@pytest.mark.skipif(shutil.which("fping") is None, reason="fping is not installed")
def test_a_scan_by_fping() -> None:
    try:
        made = scan()
    except NothingMeasuredError as error:
        if "may not" not in str(error):
            raise
        pytest.skip("fping may not probe here")
    assert made.status == "ok", [visit.reason for visit in made.visits]
    assert {visit.method for visit in made.visits} == {"fping"}
    # One that a busy machine left without a reading was made again.
    read = [visit for visit in made.visits if visit.reason is None]
    assert {(visit.src, visit.dst) for visit in read} == {("a", "b"), ("b", "a")}
    assert all((visit.sent, visit.samples) == (10, visit.received) and visit.samples for visit in read)
    assert set(made.measurements[0].parameters["versions"]) == {"a", "b"}
    assert 0 < made.rtt_s.p10[0, 1] < 10
    assert any(warning.startswith("user-space stamps in what a, b measured") for warning in made.warnings)


def install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "fping"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'sh: fping: Permission denied'; exit 126", "it may not run fping, exit code 126"),
        ("[ $# = 1 ] && echo 'fping: Version 5.1' || { echo 'x: Operation not permitted'; exit 4; }",
         "it may not run fping, exit code 4: x: Operation not permitted"),
        ("echo 'ping pong'", "its fping says 'ping pong' of itself"),
    ],
)  # fmt: skip
def test_a_host_whose_fping_may_not_run_has_a_reason(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, script, monkeypatch)
    with pytest.raises(NothingMeasuredError) as caught:
        scan()
    assert said in str(caught.value) and "use --latency stamp" in str(caught.value)


def test_a_fping_that_fails_in_the_middle_costs_its_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        'case "$*" in --version) echo "fping: Version 5.1";; *-D*) printf "garbage\\n127"; exit 1;; esac',
        monkeypatch,
    )
    with pytest.raises(NothingMeasuredError, match="a: garbage"):
        scan()
