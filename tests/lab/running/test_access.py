"""Ways into the hosts of a lab: the hosts file, the agent for mpirun, ssh."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from netprobe.lab import Lab, parse_spec, temporary
from netprobe.lab.running.access import RUN_SSHD

pytestmark = pytest.mark.lab

needs_sshd = pytest.mark.skipif(
    not (shutil.which("sshd", path="/usr/sbin:/usr/bin") and shutil.which("ssh")),
    reason="OpenSSH is not installed",
)


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL
    )


def test_the_hosts_file_has_one_line_a_host_in_order(small_lab: Lab) -> None:
    lines = small_lab.hosts_path.read_text(encoding="ascii").splitlines()
    assert lines[0].startswith("#")
    for line, host in zip(lines[1:], small_lab.hosts, strict=True):
        name, *pairs = line.split()
        assert name == host.name
        assert dict(pair.split("=") for pair in pairs) == {
            "target": host.target,
            "address": host.address,
            "launcher_name": host.name,
            "slots": "1",
        }


def test_the_rsh_agent_runs_a_command_line_as_ssh_would(small_lab: Lab) -> None:
    host = small_lab.hosts[1]
    script = "hostname; printf '[%s]' 'two  words' \"$((6*7))\" 'a;b'; ip -o -4 addr show dev eth0"
    for called in (host.name, host.target, host.address):
        done = _run(small_lab.exec_argv(None, [*small_lab.rsh_agent_argv, called, script]))
        assert done.stdout.startswith(f"{host.name}\n[two  words][42][a;b]")
        assert host.address in done.stdout
    split = _run([*small_lab.rsh_agent_argv, host.name, "echo", "'x  y'"])
    assert split.stdout == "x  y\n"
    assert _run([*small_lab.rsh_agent_argv, "nobody", "true"]).returncode == 255
    assert _run([*small_lab.rsh_agent_argv, host.name, "exit 7"]).returncode == 7


def test_the_launcher_template_and_ip_netns_exec_take_the_target(small_lab: Lab) -> None:
    host = small_lab.hosts[0]
    via = [word.replace("{target}", host.target) for word in small_lab.via_template.split()]
    assert _run([*via, "hostname"]).stdout == f"{host.name}\n"
    shown = _run(["ip", "netns", "exec", host.target, "ip", "-o", "-4", "addr", "show", "dev", "eth0"])
    assert host.address in shown.stdout


@needs_sshd
def test_every_host_is_reached_by_ssh_with_the_written_config() -> None:
    had_run_sshd = RUN_SSHD.exists()
    with temporary(parse_spec("racks: [4, 4]"), seed=2, sshd=True) as lab:
        config = lab.ssh_config_path
        assert config is not None
        running = [
            subprocess.Popen(
                lab.exec_argv(
                    None, ["ssh", "-F", str(config), "-o", "BatchMode=yes", alias, "hostname; echo $SHLVL"]
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
            )
            for host in lab.hosts
            for alias in (host.target, host.name)
        ]
        names = [host.name for host in lab.hosts for _ in range(2)]
        for name, one in zip(names, running, strict=True):
            stdout, stderr = one.communicate(timeout=100)
            assert stdout.splitlines()[:1] == [name], stderr
        assert not _listens_outside()
        for key in ("id_ed25519", "host_ed25519"):
            assert (config.parent / "ssh" / key).stat().st_mode & 0o077 == 0
    assert RUN_SSHD.exists() == had_run_sshd


def _listens_outside() -> bool:
    return any(
        ":08AE 00000000:0000 0A" in line
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
    )
