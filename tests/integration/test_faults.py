"""The fault matrix of docs/reliability.md on a lab: each fault costs its own cells, with a reason."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan, ScannedHost
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, set_value, temporary
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import Event, HostFailed, VisitDone
from netprobe.probe.records.journal import Journal, read_journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import ScanLog, run_scan
from tests.probe.conftest import agents_of, lose_probes_after, wait_until

pytestmark = pytest.mark.lab

SPEC = "{name: faults, racks: [4, 4], delay_inside: 50us, delay_between: 150us}"
FAULTY = Path(__file__).with_name("faulty_python.py")
INSIDE_S, BETWEEN_S = 100e-6, 300e-6


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=41) as made:
        yield made


def python_with(faults: dict[str, dict[str, float]]) -> str:
    return shlex.join([sys.executable, str(FAULTY), json.dumps(faults)])


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=10)
    return done.stdout


def netprobe(*args: str, timeout_s: float = 150) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "netprobe", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)


@dataclass(frozen=True)
class Said:
    """What a command in this process ended with."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class SickFleet:
    """One scan of a fleet with all the faults that can be there together. ``names`` are the lab's hosts."""

    done: Said
    scan: Scan
    names: list[str]
    out: Path

    def host(self, name: str) -> ScannedHost:
        return next(host for host in self.scan.hosts if host.name == name)

    def cell(self, key: str, src: str, dst: str) -> float:
        order = [host.name for host in self.scan.hosts]
        matrix = self.scan.loss_ratio if key == "loss" else getattr(self.scan.rtt_s, key)
        return float(matrix[order.index(src), order.index(dst)])


@pytest.fixture(scope="module")
def sick(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> SickFleet:
    folder = tmp_path_factory.mktemp("sick")
    names = [host.name for host in lab.hosts]
    target = {host.name: host.target for host in lab.hosts}
    address = {host.name: host.address for host in lab.hosts}
    lines = [f"{name} target={target[name]} address={address[name]}" for name in names[:7]]
    lines += [f"{names[7]} target={target[names[7]]} address=localhost"]
    lines += [f"gone target={lab.name}.no-such-host", "alias target=lab.alias"]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    noisy = folder / "login"
    noisy.write_text(
        "#!/bin/sh\n"
        'echo "Welcome {to} \\"$1\\"; netprobe-agent 0123"\n'
        'printf "\\033[31mMOTD\\n" >&2\n'
        'echo "[1,2"\n'
        f'[ "$1" = lab.alias ] && {{ shift; set -- {target[names[0]]} "$@"; }}\n'
        'exec ip netns exec "$1" unshare -u sh -c \'hostname "${1#*.}"; shift; exec "$@"\' sh "$@"\n'
    )
    noisy.chmod(0o755)
    # Packets from 1 to 2 vanish; 3 may not send to 4; 5 loses a fifth of all; 6's only port is taken.
    set_value(lab, f"{names[1]}>{names[2]}", "drop", "true")
    set_value(lab, names[5], "loss", "20%")
    ip("-n", target[names[3]], "route", "add", "prohibit", f"{address[names[4]]}/32")
    taken = "import socket,sys;s=socket.socket(2,2);s.bind(('',20007));print(1,flush=True);sys.stdin.read()"
    holder = subprocess.Popen(
        ["ip", "netns", "exec", target[names[6]], sys.executable, "-c", taken],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"1\n"
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(StringIO()) as said,
            redirect_stderr(StringIO()) as errors,
        ):
            lose_probes_after(patch, 0.3)
            code = run([
                "scan", "--hosts", str(folder / "hosts"), "--via", f"{noisy} {{target}}",
                "--python", shlex.quote(sys.executable),
                "--port-range", "20007", "--only", "scan", "--json", "--out", str(folder / "out"),
            ])  # fmt: skip
    finally:
        holder.communicate()
        set_value(lab, f"{names[1]}>{names[2]}", "drop", "false")
        set_value(lab, names[5], "loss", "0%")
        ip("-n", target[names[3]], "route", "del", "prohibit", f"{address[names[4]]}/32")
    done = Said(code, said.getvalue(), errors.getvalue())
    assert (folder / "out" / "scan.json").exists(), done.stderr
    return SickFleet(done, load_document(Scan, folder / "out" / "scan.json"), names, folder / "out")


def test_what_is_not_sick_is_complete_and_correct(lab: Lab, sick: SickFleet) -> None:
    assert sick.done.returncode == 3, sick.done.stderr
    assert json.loads(sick.done.stdout)["status"] == sick.scan.status == "partial"
    racks = {host.name: host.rack for host in lab.hosts}
    well = [sick.names[i] for i in (0, 1, 2, 3, 4, 5)]
    lost = {(1, 2), (2, 1), (3, 4), (4, 3)}
    above: dict[bool, list[float]] = {True: [], False: []}
    for i, src in enumerate(well):
        for j, dst in enumerate(well):
            if i != j and (i, j) not in lost:
                inside = racks[src] == racks[dst]
                above[inside].append(sick.cell("p10", src, dst) - (INSIDE_S if inside else BETWEEN_S))
    # A busy moment of the machine may raise one link, never lower it: each link is bounded from below, the
    # tiers by their medians.
    for inside, excess in above.items():
        assert min(excess) > -5e-6, (inside, excess)
        assert abs(float(np.median(excess))) < 75e-6, (inside, excess)


def test_a_dead_host_is_unreachable_with_its_reason(sick: SickFleet) -> None:
    gone = sick.host("gone")
    assert gone.status == "unreachable"
    assert str(gone.reason).startswith("there is no network namespace faults-")


def test_a_machine_under_two_names_is_measured_once(sick: SickFleet) -> None:
    alias = sick.host("alias")
    assert alias.status == "failed" and alias.reason is not None
    assert alias.reason.startswith(f"it is the machine that {sick.names[0]} is already")
    assert sick.host(sick.names[0]).status == "ok"
    assert not any("alias" in (visit.src, visit.dst) for visit in sick.scan.visits)


def test_a_host_whose_name_is_loopback_on_the_controller_is_never_probed(sick: SickFleet) -> None:
    looped = sick.host(sick.names[7])
    assert looped.status == "failed" and looped.reason is not None
    assert "its address 'localhost' is 127.0.0.1 on the controller" in looped.reason
    assert not any(looped.name in (visit.src, visit.dst) for visit in sick.scan.visits)


def test_a_pair_whose_packets_vanish_one_way_loses_its_two_cells(sick: SickFleet) -> None:
    one, other = sick.names[1], sick.names[2]
    for src, dst in ((one, other), (other, one)):
        assert np.isnan(sick.cell("p10", src, dst)) and sick.cell("loss", src, dst) == 1.0
        visits = [visit for visit in sick.scan.visits if (visit.src, visit.dst) == (src, dst)]
        assert len(visits) == 2  # and again in a later round
        assert all(v.reason and "no answer from" in v.reason and "(UDP)" in v.reason for v in visits)
        assert visits[1].round > visits[0].round
    assert sick.host(one).status == sick.host(other).status == "partial"


def test_a_refused_way_is_told_from_a_silent_one(sick: SickFleet) -> None:
    src, dst = sick.names[3], sick.names[4]
    reasons = {visit.reason for visit in sick.scan.visits if (visit.src, visit.dst) == (src, dst)}
    assert len(reasons) == 1 and "EACCES" in str(reasons.pop())


def test_a_host_whose_port_is_taken_says_so(sick: SickFleet) -> None:
    host = sick.host(sick.names[6])
    assert host.status == "failed" and host.reason is not None
    assert host.reason.startswith("cannot open a probe port") and "EADDRINUSE" in host.reason


def test_a_noisy_login_shell_costs_nothing(sick: SickFleet) -> None:
    assert sick.host(sick.names[0]).reason is None
    text = (sick.out / "scan.json").read_text() + sick.done.stdout + sick.done.stderr
    assert "\x1b" not in text and "\\u001b" not in text


def test_a_fifth_lost_is_measured_as_such(sick: SickFleet) -> None:
    lossy, peers = sick.names[5], sick.names[:5]
    # A round trip passes twice: 1 - 0.8 * 0.8 of 1,000 probes is 0.36, give or take 0.08 (five deviations).
    ratios = [sick.cell("loss", *ends) for peer in peers for ends in ((peer, lossy), (lossy, peer))]
    assert abs(float(np.mean(ratios)) - 0.36) < 0.08 and max(ratios) < 0.65
    assert sick.host(lossy).status == "ok"
    assert all(np.isfinite(sick.cell("p10", peer, lossy)) for peer in peers)


def agent_on(lab: Lab, name: str) -> int:
    """The process of the agent that this process started on a host of the lab."""
    namespace = os.stat(f"/run/netns/{lab.host(name).target}").st_ino
    (pid,) = [p for p in agents_of(os.getpid()) if os.stat(f"/proc/{p}/ns/net").st_ino == namespace]
    return pid


def test_agents_that_die_or_hang_in_the_middle_cost_their_own_cells(lab: Lab, tmp_path: Path) -> None:
    hosts = read_hosts_file(lab.hosts_path)
    killed, frozen, dead = (host.name for host in hosts[:3])
    failed: list[HostFailed] = []
    visits = 0

    def act(event: Event) -> None:
        nonlocal visits
        if isinstance(event, HostFailed):
            failed.append(event)
        elif isinstance(event, VisitDone):
            visits += 1
            if visits == 6:
                os.kill(agent_on(lab, killed), signal.SIGKILL)
            elif visits == 10:
                os.kill(agent_on(lab, frozen), signal.SIGSTOP)
            elif visits == 14:  # a host that loses power: no packet, no word, no end of the connection
                set_value(lab, dead, "down", "true")
                os.kill(agent_on(lab, dead), signal.SIGSTOP)
            elif visits == 20:
                raise RuntimeError("the caller's display breaks")

    options = ScanOptions(python=sys.executable, probes_per_visit=50)
    try:
        with Journal(tmp_path / "journal", hosts, options.as_dict()) as journal:
            scan = run_scan(
                hosts, parse_via(lab.via_template), options, log=ScanLog(journal=journal), on_event=act
            ).scan
    finally:
        set_value(lab, dead, "down", "false")
    status = {host.name: host.status for host in scan.hosts}
    assert [status[name] for name in (killed, frozen, dead)] == ["failed"] * 3
    reasons = {host.name: str(host.reason) for host in scan.hosts}
    assert reasons[killed].startswith("the agent ended")
    assert reasons[frozen].startswith("the agent hangs") and reasons[dead].startswith("the agent hangs")
    others = [i for i, host in enumerate(scan.hosts) if host.name not in (killed, frozen, dead)]
    assert all(scan.hosts[i].status == "ok" for i in others)
    assert np.isfinite(scan.rtt_s.p10[np.ix_(others, others)]).sum() == 5 * 4
    assert all(visit.reason for visit in scan.visits if not visit.samples)
    assert any("the caller's display breaks" in warning for warning in scan.warnings)
    # The journal knows who was lost later, too.
    noted = {note["host"]: note["status"] for note in read_journal(tmp_path / "journal").notes}
    assert noted == {host.name: host.status for host in scan.hosts}


def test_a_clock_that_jumps_costs_the_readings_it_spoils(lab: Lab) -> None:
    hosts = read_hosts_file(lab.hosts_path)[:3]
    options = ScanOptions(stamps="user", python=python_with({hosts[0].name: {"clock": 21}}))
    scan = run_scan(hosts, parse_via(lab.via_template), options).scan
    assert scan.status == "ok"
    touched = [visit for visit in scan.visits if hosts[0].name in (visit.src, visit.dst)]
    assert sum(visit.rejected for visit in touched) > 0
    assert sum(visit.rejected for visit in scan.visits if visit not in touched) == 0
    assert float(np.nanmax(scan.rtt_s.p99)) < 1.0 and float(np.nanmin(scan.rtt_s.min)) > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that takes a journal's beginning and no more."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_costs_no_measurement(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = small_disk.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    done = netprobe(
        "scan",
        "--hosts",
        "h[1-5]",
        "--via",
        "local",
        "--full-visits",
        "--only",
        "scan",
        "--out",
        str(small_disk / "out"),
    )
    assert done.returncode == 2
    assert "warning: the journal ends here, it cannot be written: No space left on device" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert "scan.json: cannot be written: No space left on device" in last
    (kept,) = elsewhere.glob("netprobe-scan-*/scan.json")
    assert f"the scan is kept in {kept}" in last
    scan = load_document(Scan, kept)
    assert scan.status == "ok" and np.isfinite(scan.rtt_s.p10).sum() == 20
    assert any("the journal ends here" in warning for warning in scan.warnings)


def test_a_full_disk_costs_no_document_made_later(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = small_disk.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    with pytest.raises(OSError, match="No space left"), (small_disk / "filler").open("wb", 0) as filler:
        while True:
            filler.write(bytes(4096))
    golden = Path(__file__).parents[1] / "golden" / "scan-1.0.json"
    done = netprobe("map", str(golden), "--out", str(small_disk / "map.json"))
    (kept,) = elsewhere.glob("netprobe-map-*/map.json")
    assert done.returncode == 2 and f"the map is kept in {kept}: go on with" in done.stderr, done.stderr
    assert load_document(Map, kept).groups


@pytest.mark.parametrize(("when", "times"), [("launch", 1), ("probing", 1), ("probing", 6)])
def test_ctrl_c_ends_at_once_with_what_there_was(lab: Lab, tmp_path: Path, when: str, times: int) -> None:
    out = tmp_path / "out"
    hosts = [f"{host.name} target={host.target} address={host.address}" for host in lab.hosts]
    via = "ip netns exec {target}"
    if when == "launch":
        (tmp_path / "login").write_text(
            '#!/bin/sh\n[ "$1" = stuck ] && exec sleep 600\nexec ip netns exec "$@"\n'
        )
        (tmp_path / "login").chmod(0o755)
        via, hosts = f"{tmp_path / 'login'} {{target}}", [*hosts, "stuck"]
    (tmp_path / "hosts").write_text("\n".join(hosts) + "\n")
    argv = ["scan", "--hosts", str(tmp_path / "hosts"), "--via", via, "--out", str(out)]
    argv += ["--start-timeout", "500", "--probes", "30", "--interval", "0.02"]  # 14 rounds of 0.7 s
    running = subprocess.Popen([sys.executable, "-m", "netprobe", *argv], stderr=subprocess.PIPE, text=True)
    journal = out / "scan.journal.jsonl"
    try:
        if when == "launch":
            assert wait_until(lambda: len(agents_of(running.pid)) >= 8, 60)
        else:
            assert wait_until(lambda: journal.exists() and b'{"visit"' in journal.read_bytes(), 60)
        for _ in range(times):  # in a hurry: while agents end, while the document is written, on the way out
            running.send_signal(signal.SIGINT)
            wait_until(lambda: running.poll() is not None, 0.15)
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130, said
    assert re.search(r" visits? (is|are) kept in ", said.splitlines()[-1]), said
    assert "Traceback" not in said
    scan = load_document(Scan, out / "scan.json")
    assert scan.reason is not None and scan.reason.startswith("interrupted")
    assert len(scan.hosts) == len(hosts)
    assert scan.status == ("failed" if when == "launch" else "partial")
