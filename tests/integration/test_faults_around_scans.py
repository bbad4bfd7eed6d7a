"""Rows of docs/reliability.md that are about whole commands on a lab: before, between and after the rounds."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.lab import Lab, parse_spec, set_value, temporary
from netprobe.probe.records.journal import read_journal
from tests.probe.conftest import agents_of, is_running, lose_probes_after, wait_until

pytestmark = pytest.mark.lab
SPEC = "{name: around, racks: [3, 2], delay_inside: 50us, delay_between: 150us}"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=23) as made:
        yield made


def login(folder: Path, lines: str) -> str:
    """A way in that runs these shell lines first; ``$1`` is the target."""
    path = folder / "login"
    path.write_text(f'#!/bin/sh\n{lines}\nexec ip netns exec "$@"\n')
    path.chmod(0o755)
    return f"{path} {{target}}"


def scan_of(lab: Lab, *args: str) -> list[str]:
    via = () if "--via" in args else ("--via", lab.via_template)
    return ["scan", "--hosts", str(lab.hosts_path), "--python", sys.executable, *via, *args]


def test_when_every_host_is_dead_one_line_names_each_reason(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts").write_text(f"a target={lab.name}.no-a\nb target={lab.name}.no-b\n")
    scan = ["scan", "--hosts", str(tmp_path / "hosts"), "--via", lab.via_template, "--out"]
    assert run([*scan, str(tmp_path / "out"), "--quiet"]) == 4
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "a: there is no network namespace" in err and "; b: there is" in err
    made = load_document(Scan, tmp_path / "out" / "scan.json")
    assert made.status == "failed" and {host.status for host in made.hosts} == {"unreachable"}
    assert all(host.reason for host in made.hosts)


def test_a_host_that_answers_nobody_is_named_once(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, few = lab.hosts[2].name, lab.hosts[:3]
    lose_probes_after(monkeypatch, 0.15)
    lines = [f"{host.name} target={host.target} address={host.address}\n" for host in few]
    (tmp_path / "hosts").write_text("".join(lines))
    argv = ["scan", "--hosts", str(tmp_path / "hosts"), "--via", lab.via_template, "--python", sys.executable]
    set_value(lab, silent, "down", "true")
    try:
        code = run([*argv, "--probes", "10", "--only", "scan", "--out", str(tmp_path / "out")])
    finally:
        set_value(lab, silent, "down", "false")
    assert code == 3
    said = [
        line for line in capsys.readouterr().out.splitlines() if "no reading" in line or "partial" in line
    ]
    assert len(said) == 2, said
    assert said[0].startswith(f"{silent}: no reading with any of 2 hosts: no answer from ")
    assert said[1] == "2 other hosts: partial, and lacking nothing but that"
    made = load_document(Scan, tmp_path / "out" / "scan.json")
    assert {host.status for host in made.hosts} == {"partial"} and all(host.reason for host in made.hosts)
    well = [i for i, host in enumerate(made.hosts) if host.name != silent]
    assert np.isfinite(made.rtt_s.p10[np.ix_(well, well)]).sum() == 2 * 1


def test_a_killed_scan_goes_on_and_a_host_that_was_booted_is_measured_anew(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    journal = out / "scan.journal.jsonl"
    argv = scan_of(
        lab, "--interval", "0.003", "--full-visits", "--only", "scan", "--out", str(out), "--quiet"
    )
    running = subprocess.Popen([sys.executable, "-m", "netprobe", *argv])
    try:
        assert wait_until(lambda: journal.exists() and journal.read_bytes().count(b'{"visit"') >= 8, 60)
        running.send_signal(signal.SIGSTOP)  # or agents that it would start now were not seen
        agents = agents_of(running.pid)
    finally:
        running.kill()
        running.wait()
    assert len(agents) == 5 and wait_until(lambda: not any(map(is_running, agents)), 60)
    assert not (out / "scan.json").exists()
    before = read_journal(journal).visits
    booted = next(i for i in range(5) if any(i in (v.src, v.dst) for v in before))
    (tmp_path / "boot_id").write_text("00000000-1111-2222-3333-444444444444\n")
    via = login(
        tmp_path,
        f'[ "$1" = {lab.hosts[booted].target} ] && exec unshare -m sh -c \'mount --bind {tmp_path}/boot_id'
        ' /proc/sys/kernel/random/boot_id && exec nsenter --net=/run/netns/"$@"\' sh "$@"',
    )
    again = [
        "scan",
        "--out",
        str(out),
        "--resume",
        "--via",
        via,
        "--python",
        sys.executable,
        "--only",
        "scan",
    ]
    assert run(again) == 0
    name = lab.hosts[booted].name
    assert f"warning: {name}: booted since the scan began" in capsys.readouterr().err
    made = load_document(Scan, out / "scan.json")
    count = Counter((visit.src, visit.dst) for visit in made.visits)
    assert made.status == "ok" and len(count) == 20 and set(count.values()) == {1}
    names = [host.name for host in made.hosts]
    started = {(names.index(v.src), names.index(v.dst)): v.started_s for v in made.visits}
    kept = {(v.src, v.dst) for v in before if abs(started[v.src, v.dst] - v.started_s) < 1e-6}
    assert kept == {(v.src, v.dst) for v in before if booted not in (v.src, v.dst)}


def test_hosts_that_die_between_the_scan_and_its_capacity_cost_the_capacity_alone(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    via = login(tmp_path, f'[ -e {out}/map.json ] && {{ echo "$1 is gone" >&2; exit 255; }}')
    args = ("--via", via, "--probes", "10", "--measure", "rtt,capacity", "--out", str(out))
    assert run(scan_of(lab, *args)) == 3
    assert f"no capacity: {lab.hosts[0].name}: " in capsys.readouterr().out
    made = load_document(Capacity, out / "capacity.json")
    assert made.status == "failed" and {host.status for host in made.hosts} == {"unreachable"}
    assert all("is gone" in str(host.reason) for host in made.hosts)
    assert load_document(Scan, out / "scan.json").status == "ok"
    assert (out / "plan.json").exists() and (out / "hostfile").read_text().count("slots") == 5
