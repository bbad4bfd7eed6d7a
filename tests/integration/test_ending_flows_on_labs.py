"""Ended in the middle of flows: with what there was, and nothing left on the hosts."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.probe.records.journal import read_journal
from tests.probe.conftest import wait_until

pytestmark = pytest.mark.lab
# Racks further apart than what a busy machine adds, for which tests are made depends on the groups.
SPEC = "{name: ending-flows, racks: [3, 3], delay_between: 1ms, host_rate: 20Mbit/s, uplink_rate: 40Mbit/s}"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=11) as made:
        yield made


def reach(lab: Lab) -> list[str]:
    return ["--via", lab.via_template, "--python", sys.executable]


def programs(lab: Lab) -> list[str]:
    """Command lines of all processes on the lab's hosts."""
    found = []
    for host in lab.hosts:
        done = subprocess.run(
            ["ip", "netns", "pids", host.target], capture_output=True, text=True, timeout=60
        )
        for pid in done.stdout.split():
            try:
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def has(lab: Lab, word: str) -> bool:
    return any(word in line for line in programs(lab))


@pytest.mark.parametrize(("way", "number"), [("iperf3", signal.SIGINT), ("tcp", signal.SIGTERM)])
def test_a_scan_that_is_ended_while_it_tests_goodput(
    lab: Lab, tmp_path: Path, way: str, number: signal.Signals
) -> None:
    if way == "iperf3" and shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    before = programs(lab)
    out = tmp_path / "out"
    argv = ["scan", "--hosts", str(lab.hosts_path), *reach(lab), "--probes", "20", "--out", str(out)]
    argv += ["--measure", "rtt,goodput", "--goodput", way, "--goodput-seconds", "1"]
    running = subprocess.Popen([sys.executable, "-m", "netprobe", *argv], stderr=subprocess.PIPE, text=True)
    journal = out / "scan.journal.jsonl"
    try:
        assert wait_until(lambda: journal.exists() and b'"goodput":{"bytes' in journal.read_bytes(), 100)
        # The next round's tests have begun: its clients run, or its agents send.
        assert wait_until(lambda: way == "tcp" or has(lab, "iperf3 -c"), 60)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130 and "interrupted" in said.splitlines()[-1], said
    assert wait_until(lambda: programs(lab) == before, 60)
    scan = load_document(Scan, out / "scan.json")
    assert scan.status == "partial" and scan.reason == "interrupted"
    # All that the journal has of both measurements, a cell a link.
    visits = read_journal(journal).visits
    assert np.isfinite(scan.rtt_s.p10).sum() == len({(v.src, v.dst) for v in visits if v.rtt_s.size}) > 0
    read = np.isfinite(scan.goodput_bytes_per_s["goodput"]).sum()
    assert 1 <= read < 30 and read == len({(v.src, v.dst) for v in visits if v.goodput is not None})
    assert [m.id for m in scan.measurements] == ["rtt", "goodput"]


def test_capacity_that_is_ended_keeps_the_tests_that_were_made(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    scan = ["scan", "--hosts", str(lab.hosts_path), *reach(lab), "--probes", "20", "--only", "map"]
    assert run([*scan, "--out", str(out), "-q"]) == 0
    before = programs(lab)
    terminal, end = pty.openpty()  # progress is shown on terminals only
    argv = ["capacity", str(out / "scan.json"), str(out / "map.json"), *reach(lab), "--seconds", "0.6"]
    running = subprocess.Popen(
        [sys.executable, "-m", "netprobe", *argv], stderr=end, env=os.environ | {"TERM": "xterm"}
    )
    os.close(end)
    said = bytearray()

    def listen() -> None:
        try:
            while part := os.read(terminal, 4096):
                said.extend(part)
        except OSError:  # what the end of a terminal is
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        assert wait_until(lambda: b"round 7 of" in said, 100)  # six among hosts, and the first of an uplink
        running.send_signal(signal.SIGINT)
        running.wait(60)
    finally:
        running.kill()
        running.wait()
        listener.join(60)
        os.close(terminal)
    assert running.returncode == 130 and re.search(rb" tests? of capacity (is|are) kept in ", said)
    assert wait_until(lambda: programs(lab) == before, 60)
    made = load_document(Capacity, out / "capacity.json")
    assert made.status == "partial" and made.reason is not None and made.reason.startswith("interrupted; ")
    assert len(made.tests) >= 7
    known = {one.id for one in made.resources if one.bytes_per_s is not None}
    assert {f"{end}:{host.name}" for host in lab.hosts for end in ("tx", "rx")} <= known
    assert "up:g1" in known and "down:g2" not in known
    assert all(one.reason for one in made.resources if one.id not in known)
