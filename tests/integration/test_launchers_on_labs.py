"""The real OpenSSH client and the real mpirun on a lab, and what a killed controller leaves."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netprobe.lab import Lab, down, find, load_spec, temporary, up
from netprobe.probe.journal import read_journal

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(load_spec("racks-6-6-4"), seed=31, sshd=True) as made:
        yield made


def netprobe_argv(*args: str) -> list[str]:
    return [sys.executable, "-m", "netprobe", *args]


def test_ssh_honours_the_users_config(lab: Lab, tmp_path: Path) -> None:
    """Aliases as targets, a port, an identity file, and other addresses to probe than ssh goes to."""
    assert lab.ssh_config_path is not None
    config = lab.ssh_config_path.read_text()
    assert "IdentityFile" in config and "Port" in config
    others = {host.name: host.address.replace("10.77.", "10.78.") for host in lab.hosts}
    lines = []
    for host in lab.hosts:
        assert host.address in config, "ssh goes to the first address, and the probes to the second"
        added = ["ip", "-n", host.target, "addr", "add", f"{others[host.name]}/16", "dev", "eth0"]
        subprocess.run(added, check=True)
        lines.append(f"{host.name} target={host.target} address={others[host.name]}\n")
    (tmp_path / "hosts").write_text("".join(lines))
    out = tmp_path / "out"
    argv = netprobe_argv("scan", "--hosts", str(tmp_path / "hosts"), "--ssh-config", str(lab.ssh_config_path))
    done = subprocess.run(
        lab.exec_argv(None, [*argv, "--fan-out", "16", "--out", str(out), "--json"]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    scan = json.loads((out / "scan.json").read_text())
    assert [host["status"] for host in scan["hosts"]] == ["ok"] * 16
    assert {host["name"]: host["address"] for host in scan["hosts"]} == others
    assert all(host["agent"]["hostname"] == host["name"] for host in scan["hosts"])
    assert len(json.loads(done.stdout)["groups"]) == 3


def test_an_unknown_host_key_says_what_to_do(lab: Lab, tmp_path: Path) -> None:
    assert lab.ssh_config_path is not None
    config = tmp_path / "config"
    text = lab.ssh_config_path.read_text()
    kept = [line for line in text.splitlines() if "UserKnownHostsFile" not in line]
    config.write_text("\n".join(kept) + f"\nHost *\n  UserKnownHostsFile {tmp_path}/none\n")
    argv = netprobe_argv("scan", "--hosts", str(lab.hosts_path), "--ssh-config", str(config))
    done = subprocess.run(
        lab.exec_argv(None, [*argv, "--out", str(tmp_path / "out")]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 4
    assert "host key" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
def test_mpirun_puts_the_ranks_where_the_hostfile_says(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    argv = netprobe_argv("scan", "--hosts", str(lab.hosts_path), "--via", lab.via_template, "--json")
    done = subprocess.run([*argv, "--out", str(out)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    order = json.loads((out / "plan.json").read_text())["order"]
    printed = shlex.split(json.loads(done.stdout)["command"])
    assert printed[0] == "mpirun" and printed[-1] == "PROGRAM"
    mca = {
        "plm_rsh_agent": " ".join(lab.rsh_agent_argv),
        "btl": "tcp,self",
        "pml": "ob1",
        "btl_tcp_if_include": "10.77.0.0/16",
        "oob_tcp_if_include": "10.77.0.0/16",
        "mpi_yield_when_idle": "1",
    }
    flags = ["--allow-run-as-root", "--tag-output"] if os.geteuid() == 0 else ["--tag-output"]
    # The command netprobe prints, word for word, with the lab's own way in behind it.
    command = printed[:-1]
    command += [*flags, *(word for key, value in mca.items() for word in ("--mca", key, value))]
    program = ["sh", "-c", 'echo "rank=$OMPI_COMM_WORLD_RANK host=$(hostname)"']
    done = subprocess.run(
        lab.exec_argv(None, [*command, *program]), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    words = [line.partition("rank=")[2].split() for line in done.stdout.splitlines() if "rank=" in line]
    placed = {int(rank): host.removeprefix("host=") for rank, host in words}
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(f"rank {r} -> {placed[r]}" for r in sorted(placed)) + "\n")
    assert [placed[rank] for rank in range(16)] == order


def is_running(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def processes_of(lab_name: str) -> list[int]:
    found = []
    for host in find(lab_name).layout.everyone:
        listed = subprocess.run(["ip", "netns", "pids", host.target], capture_output=True, text=True)
        found += [int(word) for word in listed.stdout.split()]
    return found


def until_none(lab_name: str, seconds: float) -> list[int]:
    """The processes in the lab's hosts that are left after at most ``seconds``."""
    end = time.monotonic() + seconds
    left = processes_of(lab_name)
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left = processes_of(lab_name)
    return left


def test_a_killed_controller_leaves_no_agent_and_a_whole_journal(tmp_path: Path) -> None:
    name = f"killed-{os.getpid()}"
    made = up(load_spec("racks-4x4"), seed=5, name=name)
    try:
        out = tmp_path / "out"
        argv = netprobe_argv("scan", "--hosts", str(made.hosts_path), "--via", made.via_template)
        running = subprocess.Popen([*argv, "--out", str(out), "-q"], start_new_session=True)
        journal = out / "scan.journal.jsonl"
        end = time.monotonic() + 60
        while not (journal.exists() and journal.read_bytes().count(b'"visit"') >= 40):
            assert running.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        assert len(processes_of(name)) >= 16
        running.send_signal(signal.SIGKILL)
        running.wait()
        written = journal.read_bytes().count(b"\n")
        assert until_none(name, 5.0) == []
        record = read_journal(journal)
        assert len(record.visits) >= 40
        assert len(record.visits) + len(record.notes) + 1 == written
        assert all(visit.rtt_s.size for visit in record.visits)
        of_the_lab = subprocess.run(
            ["ip", "netns", "pids", made.layout.fabric_target], capture_output=True, text=True
        ).stdout.split()
        assert of_the_lab
    finally:
        down(name)
    assert not [pid for pid in of_the_lab if is_running(pid)]
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert name not in listed
    assert not Path(f"/run/netprobe/labs/{name}").exists()


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    name = f"interrupted-{os.getpid()}"
    made = up(load_spec("racks-4x4"), seed=6, name=name)
    try:
        out = tmp_path / "out"
        argv = netprobe_argv("scan", "--hosts", str(made.hosts_path), "--via", made.via_template)
        running = subprocess.Popen([*argv, "--out", str(out)], stderr=subprocess.PIPE, text=True)
        journal = out / "scan.journal.jsonl"
        end = time.monotonic() + 60
        while not (journal.exists() and journal.read_bytes().count(b'"visit"') >= 16):
            assert running.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
        assert running.returncode == 130
        assert "interrupted" in err
        assert "Traceback" not in err
        scan = json.loads((out / "scan.json").read_text())
        assert scan["status"] == "partial"
        assert 16 <= len(scan["visits"]) < 240
        assert until_none(name, 5.0) == []
    finally:
        down(name)


def test_lab_exec_runs_where_it_is_told(lab: Lab) -> None:
    host = lab.hosts[3]
    for words in (["--", "hostname"], ["hostname"]):
        argv = netprobe_argv("lab", "exec", "--host", host.name, lab.name, *words)
        assert subprocess.run(argv, capture_output=True, text=True).stdout.strip() == host.name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_lab_of_a_scan_goes_when_the_scan_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    running = subprocess.Popen(netprobe_argv("scan", "--lab", "racks-4x4", "--out", str(out), "-q"))
    journal = out / "scan.journal.jsonl"
    end = time.monotonic() + 60
    while not (journal.exists() and journal.read_bytes().count(b'"visit"') >= 8):
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(number)
    assert running.wait(20) == 130
    assert json.loads((out / "scan.json").read_text())["status"] == "partial"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"-{running.pid}." not in listed
