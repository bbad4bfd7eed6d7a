"""ssh at fleet size against the lab's real sshds: a server that drops logins, a jump host, ControlMaster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netprobe.lab import Lab, parse_spec, temporary
from tests.probe.conftest import wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not (shutil.which("sshd", path="/usr/sbin:/usr/bin") and shutil.which("ssh")),
        reason="OpenSSH is not installed",
    ),
]

LAUNCH = """
import asyncio, json, sys, time
from pathlib import Path
from netprobe.core.hosts import make_host
from netprobe.probe.launchers.bootstrap import new_payload
from netprobe.probe.launchers.launch import LaunchFailure
from netprobe.probe.launchers.ssh import SshLauncher

config, how, *names = sys.argv[1:]

async def main():
    launcher = SshLauncher(config=Path(config), fan_out=16)
    payload = new_payload(lease_s=2 if how == "kill" else 600, python=sys.executable)
    up, failed = [], []
    async for outcome in launcher.launch([make_host(name) for name in names], payload, 100):
        (failed if isinstance(outcome, LaunchFailure) else up).append(outcome)
    ready = time.monotonic()
    if how == "kill":
        for channel in up:
            channel.kill()
    else:
        for channel in up:
            channel.close()
        await asyncio.gather(*(channel.reap(0.5) for channel in up))
    print(json.dumps({
        "up": len(up), "reasons": [f.reason for f in failed],
        "end_s": time.monotonic() - ready,
    }))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    spec = parse_spec("{name: sshfleet, racks: [2, 2], delay_inside: 50us, delay_between: 150us}")
    with temporary(spec, seed=3, sshd=True) as made:
        yield made


@contextmanager
def another_sshd(lab: Lab, folder: Path, max_startups: str, *, on_controller: bool) -> Iterator[Path]:
    """A second sshd, on port 2300 of a host or of the controller; its log."""
    host = lab.hosts[0]
    where = lab.layout.controller if on_controller else host
    ssh = lab.directory / "ssh"
    text = (ssh / f"{host.target}.conf").read_text()
    lines = [
        line for line in text.splitlines() if line.split()[0] not in ("Port", "ListenAddress", "PidFile")
    ]
    lines = [line for line in lines if not line.startswith("MaxStartups")]
    lines += ["Port 2300", f"ListenAddress {where.address}", f"PidFile {folder}/pid"]
    lines += [f"MaxStartups {max_startups}", "LogLevel VERBOSE"]
    (folder / "sshd.conf").write_text("\n".join(lines) + "\n")
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    argv = [str(sshd), "-D", "-f", str(folder / "sshd.conf"), "-E", str(folder / "log")]
    daemon = subprocess.Popen(lab.exec_argv(None if on_controller else host.name, argv))
    try:
        assert wait_until(lambda: daemon.poll() is not None or (folder / "pid").exists(), 60)
        assert daemon.poll() is None
        yield folder / "log"
    finally:
        daemon.terminate()
        daemon.wait(60)


def client_config(lab: Lab, path: Path, extra: str) -> Path:
    """The lab's own configuration without its host names and ports, and ``extra`` in front."""
    assert lab.ssh_config_path is not None
    ssh = lab.directory / "ssh"
    common = (
        f"Host *\n  User root\n  IdentityFile {ssh}/id_ed25519\n  IdentitiesOnly yes\n"
        "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
    )
    path.write_text(extra + common)
    return path


def launch(lab: Lab, config: Path, names: list[str], how: str = "close") -> dict[str, Any]:
    argv = lab.exec_argv(None, [sys.executable, "-c", LAUNCH, str(config), how, *names])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-800:]
    result: dict[str, Any] = json.loads(done.stdout)
    sys.stdout.write(f"{result}\n")
    return result


def agents_in(lab: Lab) -> list[int]:
    found = []
    for host in lab.hosts:
        listed = subprocess.run(["ip", "netns", "pids", host.target], capture_output=True, text=True)
        for pid in listed.stdout.split():
            try:
                if b"-ISB\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
            except OSError:
                continue
    return found


def no_agent_is_left(lab: Lab) -> bool:
    return wait_until(lambda: not agents_in(lab), 60)


def test_twelve_logins_at_once_survive_a_server_that_lets_four_in(lab: Lab, tmp_path: Path) -> None:
    names = [f"one{i}" for i in range(12)]
    address = lab.hosts[0].address
    extra = f"Host one*\n  HostName {address}\n  Port 2300\n"
    config = client_config(lab, tmp_path / "config", extra)
    with another_sshd(lab, tmp_path, "2:30:4", on_controller=False) as log:
        result = launch(lab, config, names)
        dropped = log.read_text().count("drop connection")
    sys.stdout.write(f"{dropped} logins dropped\n")
    assert (result["up"], result["reasons"]) == (12, [])
    assert dropped > 0  # or nothing was tested
    assert no_agent_is_left(lab)


def test_a_jump_host_of_the_default_limits_drops_nobody(lab: Lab, tmp_path: Path) -> None:
    """12 hosts behind one jump host, all at a time otherwise; sshd's default is to drop from 10 on."""
    names = [f"{host.name}x{i}" for host in lab.hosts for i in range(3)]
    extra = f"Host jump\n  HostName {lab.layout.controller.address}\n  Port 2300\n"
    for host in lab.hosts:
        extra += f"Host {host.name}x*\n  HostName {host.address}\n  Port 2222\n  ProxyJump jump\n"
    config = client_config(lab, tmp_path / "config", extra)
    with another_sshd(lab, tmp_path, "10:100:100", on_controller=True) as log:
        result = launch(lab, config, names)
        text = log.read_text()
    assert (result["up"], result["reasons"]) == (12, [])
    assert text.count("Accepted publickey") == 12
    assert "drop connection" not in text
    assert no_agent_is_left(lab)


@pytest.mark.parametrize("how", ["close", "kill"])
def test_a_control_master_holds_nothing_up(lab: Lab, tmp_path: Path, how: str) -> None:
    """Its background process keeps ssh's standard error open; a killed client gives no end of input."""
    sockets = tempfile.mkdtemp(prefix="np-", dir="/tmp")  # a socket's path is short, pytest's are not
    extra = f"Host *\n  ControlMaster auto\n  ControlPath {sockets}/%C\n  ControlPersist 600\n"
    for host in lab.hosts[:2]:
        extra += f"Host {host.name}\n  HostName {host.address}\n  Port 2222\n"
    config = client_config(lab, tmp_path / "config", extra)
    names = [host.name for host in lab.hosts[:2]]
    try:
        for _ in range(2):  # the first makes the masters, the second goes through them
            result = launch(lab, config, names, how)
            assert (result["up"], result["reasons"]) == (2, [])
            assert result["end_s"] < 60  # and not ControlPersist
            assert no_agent_is_left(lab)  # by the end of its input, or by its lease
    finally:
        for name in names:
            stop = ["ssh", "-F", str(config), "-O", "exit", name]
            subprocess.run(lab.exec_argv(None, stop), capture_output=True, timeout=60, check=False)
        shutil.rmtree(sockets, ignore_errors=True)


def test_a_jump_host_that_fails_costs_the_hosts_behind_it(lab: Lab, tmp_path: Path) -> None:
    extra = "Host jump\n  HostName 127.0.0.1\n  Port 9\n"
    for number, host in enumerate(lab.hosts):
        jump = "  ProxyJump jump\n" if number >= 2 else ""
        extra += f"Host {host.name}\n  HostName {host.address}\n  Port 2222\n{jump}"
    config = client_config(lab, tmp_path / "config", extra)
    argv = [sys.executable, "-m", "netprobe", "scan", "--hosts", ",".join(host.name for host in lab.hosts)]
    argv += ["--ssh-config", str(config), "--python", sys.executable, "--only", "scan", "--probes", "10"]
    done = subprocess.run(
        lab.exec_argv(None, [*argv, "--start-timeout", "20", "--json", "--out", str(tmp_path / "out")]),
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    hosts = {host["name"]: host for host in json.loads(done.stdout)["hosts"]}
    said = [(hosts[host.name]["status"], str(hosts[host.name]["reason"])) for host in lab.hosts]
    assert [status for status, _ in said] == ["ok", "ok", "unreachable", "unreachable"]
    assert all(reason.startswith("its jump host: connection refused") for _, reason in said[2:]), said
