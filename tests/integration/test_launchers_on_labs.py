"""The real OpenSSH client and the real mpirun on a lab, and what a killed controller leaves."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from netprobe.lab import Lab, parse_spec, temporary
from netprobe.probe.records.journal import read_journal
from tests.probe.conftest import wait_until

pytestmark = pytest.mark.lab


# Racks further apart than what a busy machine adds, for the groups are part of what is looked at.
SPEC = "{name: launchers, racks: [3, 3, 2], delay_inside: 50us, delay_between: 1ms}"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=31, sshd=True) as made:
        yield made


def netprobe_argv(*args: str) -> list[str]:
    return [sys.executable, "-m", "netprobe", *args]


@dataclass(frozen=True)
class Scanned:
    """A scan over ssh, whole chain: what it printed, its folder, and the addresses it was to probe."""

    printed: dict[str, Any]
    out: Path
    addresses: dict[str, str]


@pytest.fixture(scope="module")
def over_ssh(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Scanned:
    """Aliases as targets, a port, an identity file, and other addresses to probe than ssh goes to."""
    folder = tmp_path_factory.mktemp("ssh")
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
    (folder / "hosts").write_text("".join(lines))
    out = folder / "out"
    argv = netprobe_argv("scan", "--hosts", str(folder / "hosts"), "--ssh-config", str(lab.ssh_config_path))
    done = subprocess.run(
        lab.exec_argv(None, [*argv, "--fan-out", "16", "--out", str(out), "--json"]),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return Scanned(json.loads(done.stdout), out, others)


def test_ssh_honours_the_users_config(lab: Lab, over_ssh: Scanned) -> None:
    scan = json.loads((over_ssh.out / "scan.json").read_text())
    assert [host["status"] for host in scan["hosts"]] == ["ok"] * 8
    assert {host["name"]: host["address"] for host in scan["hosts"]} == over_ssh.addresses
    assert all(host["agent"]["hostname"] == host["name"] for host in scan["hosts"])
    found = {frozenset(group["hosts"]) for group in over_ssh.printed["groups"]}
    assert found == {frozenset(group.hosts) for group in lab.truth().groups}


def test_an_unknown_host_key_says_what_to_do(lab: Lab, tmp_path: Path) -> None:
    assert lab.ssh_config_path is not None
    config = tmp_path / "config"
    text = lab.ssh_config_path.read_text()
    kept = [line for line in text.splitlines() if "UserKnownHostsFile" not in line]
    config.write_text("\n".join(kept) + f"\nHost *\n  UserKnownHostsFile {tmp_path}/none\n")
    names = ",".join(host.name for host in lab.hosts[:3])
    argv = netprobe_argv("scan", "--hosts", names, "--ssh-config", str(config))
    done = subprocess.run(
        lab.exec_argv(None, [*argv, "--out", str(tmp_path / "out")]),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 4
    assert "host key" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
def test_mpirun_puts_the_ranks_where_the_hostfile_says(
    lab: Lab, over_ssh: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    order = json.loads((over_ssh.out / "plan.json").read_text())["order"]
    placed = ranks_under_mpirun(lab, shlex.split(over_ssh.printed["command"]))
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(f"rank {r} -> {placed[r]}" for r in sorted(placed)) + "\n")
    assert [placed[rank] for rank in range(8)] == order


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI's mpirun is not installed")
def test_mpirun_puts_the_ranks_where_the_rankfile_says(lab: Lab, over_ssh: Scanned, tmp_path: Path) -> None:
    """Two ranks a host, which stay neighbours."""
    order = json.loads((over_ssh.out / "plan.json").read_text())["order"]
    export = ["export", "hostfile", str(over_ssh.out / "plan.json"), "--format", "rankfile", "--slots", "2"]
    argv = netprobe_argv(*export, "--out", str(tmp_path / "rankfile"), "--json")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    placed = ranks_under_mpirun(lab, shlex.split(json.loads(done.stdout)["command"]))
    assert [placed[rank] for rank in range(16)] == [name for name in order for _ in range(2)]


def ranks_under_mpirun(lab: Lab, printed: list[str]) -> dict[int, str]:
    """Host of each rank under the command netprobe prints, word for word, with the lab's own way in behind it."""
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
    command = printed[:-1]
    command += [*flags, *(word for key, value in mca.items() for word in ("--mca", key, value))]
    program = ["sh", "-c", 'echo "rank=$OMPI_COMM_WORLD_RANK host=$(hostname)"']
    done = subprocess.run(
        lab.exec_argv(None, [*command, *program]), capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    words = [line.partition("rank=")[2].split() for line in done.stdout.splitlines() if "rank=" in line]
    return {int(rank): host.removeprefix("host=") for rank, host in words}


def visits_in(out: Path) -> int:
    journal = out / "scan.journal.jsonl"
    return journal.read_bytes().count(b'{"visit"') if journal.exists() else 0


@contextmanager
def scan_under_way(
    out: Path, *args: str, visits: int = 1, path: str = os.environ.get("PATH", os.defpath)
) -> Iterator[subprocess.Popen[str]]:
    """A scan with so many visits behind it, and at half a second a round most of them still before it."""
    argv = netprobe_argv("scan", *args, "--probes", "50", "--interval", "0.01", "--out", str(out))
    running = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )
    try:
        assert wait_until(lambda: running.poll() is not None or visits_in(out) >= visits, 100)
        assert running.poll() is None
        yield running
    finally:
        running.kill()
        running.communicate()


def agents_in(lab: Lab) -> list[int]:
    found = []
    for host in lab.layout.everyone:
        listed = subprocess.run(["ip", "netns", "pids", host.target], capture_output=True, text=True)
        for pid in listed.stdout.split():
            with suppress(OSError):
                if b"-ISB\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
    return found


def test_a_killed_controller_leaves_no_agent_and_a_whole_journal(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    reach = ("--hosts", str(lab.hosts_path), "--via", lab.via_template)
    with scan_under_way(out, *reach, visits=8) as running:
        assert len(agents_in(lab)) >= 8
        running.send_signal(signal.SIGKILL)
        running.wait()
    journal = out / "scan.journal.jsonl"
    written = journal.read_bytes().count(b"\n")
    assert wait_until(lambda: not agents_in(lab), 60)
    record = read_journal(journal)
    assert 8 <= len(record.visits) < 56
    assert len(record.visits) + len(record.notes) + 1 == written
    assert all(visit.rtt_s.size for visit in record.visits)


def test_ctrl_c_keeps_what_was_measured(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with scan_under_way(out, "--hosts", str(lab.hosts_path), "--via", lab.via_template) as running:
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=100)
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    scan = json.loads((out / "scan.json").read_text())
    assert scan["status"] == "partial"
    assert 1 <= len(scan["visits"]) < 56
    assert wait_until(lambda: not agents_in(lab), 60)


def test_lab_exec_runs_where_it_is_told(lab: Lab) -> None:
    host = lab.hosts[3]
    for words in (["--", "hostname"], ["hostname"]):
        argv = netprobe_argv("lab", "exec", "--host", host.name, lab.name, *words)
        assert subprocess.run(argv, capture_output=True, text=True).stdout.strip() == host.name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_lab_of_a_scan_goes_when_the_scan_is_ended(
    compiler_cache: str, tmp_path: Path, number: signal.Signals
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here (nohup), and so it is by what is started here")
    spec, out = tmp_path / "spec.yaml", tmp_path / "out"
    spec.write_text("{name: ended, racks: [2, 2]}\n")
    with scan_under_way(out, "--lab", str(spec), path=compiler_cache) as running:
        running.send_signal(number)
        running.communicate(timeout=100)
    assert running.returncode == 130
    assert json.loads((out / "scan.json").read_text())["status"] == "partial"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"-{running.pid}." not in listed
