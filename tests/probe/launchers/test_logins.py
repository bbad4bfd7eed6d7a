"""Logins over ssh whose shell is not the one that was expected, and ssh that says nothing."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from pathlib import Path

import pytest

from netprobe.probe.launchers.bootstrap import READY, Payload, new_payload
from netprobe.probe.launchers.launch import LaunchFailure
from netprobe.probe.launchers.process import ProcessChannel
from netprobe.probe.launchers.ssh import SshLauncher, control_path, is_hung
from tests.probe.conftest import hosts_named

START_S = 30.0


def fake_ssh(folder: Path, script: str) -> str:
    """A program in place of ssh; its last argument is the command for the login shell."""
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nfor last in "$@"; do :; done\n{script}\n')
    program.chmod(0o755)
    return str(program)


def outcome_of(launcher: SshLauncher, payload: Payload, timeout_s: float) -> str | None:
    """Why no agent answers; None when one does."""

    async def launch() -> str | None:
        async for outcome in launcher.launch(hosts_named("h1"), payload, timeout_s):
            if isinstance(outcome, LaunchFailure):
                return outcome.reason
            outcome.kill()
        return None

    return asyncio.run(launch())


@pytest.mark.parametrize("setup", [None, "true"])
def test_a_shell_in_place_of_the_command_is_sent_nothing(
    setup: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The code's second word is import, which on many machines is a program that takes pictures of the screen.
    stolen = tmp_path / "bin" / "import"
    stolen.parent.mkdir()
    stolen.write_text(f"#!/bin/sh\necho run >> {tmp_path / 'was-run'}\n")
    stolen.chmod(0o755)
    monkeypatch.setenv("PATH", str(stolen.parent), prepend=":")
    launcher = SshLauncher(program=fake_ssh(tmp_path, f"tee {tmp_path / 'sent'} | sh"))
    reason = outcome_of(launcher, new_payload(lease_s=5, setup=setup), 1.5)
    assert reason is not None and "start-up file" in reason
    assert not (tmp_path / "was-run").exists()
    assert (tmp_path / "sent").read_bytes() == b""


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "tcsh", "fish", "zsh"])
def test_any_login_shell_runs_set_up_lines_of_several_lines(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    said = tmp_path / "said"
    setup = f"if true; then\n  echo 'wow! it is \"so\"' >{said}\nfi # and so on\nexport A=1; !true || exit 5"
    setup = setup.replace("!true", "! false")
    launcher = SshLauncher(program=fake_ssh(tmp_path, f'exec {shell} -c "$last"'))
    payload = new_payload(lease_s=5, python=sys.executable, setup=setup)
    assert outcome_of(launcher, payload, START_S) is None
    assert said.read_text() == 'wow! it is "so"\n'


def test_a_command_line_that_is_printed_is_no_request_for_the_code(tmp_path: Path) -> None:
    launcher = SshLauncher(program=fake_ssh(tmp_path, 'echo "$last"; cat'))
    reason = outcome_of(launcher, new_payload(lease_s=5, setup="true"), 0.7)
    assert reason is not None and "start-up file" in reason


def test_code_is_sent_when_it_is_asked_for_and_not_before() -> None:
    payload = new_payload(lease_s=5, setup="true\ntrue")
    script = (
        "import sys, os, select, time\n"
        "for part in (1, 2):\n"
        "    early = select.select([0], [], [], 0.2)[0]\n"
        f"    os.write(1, b'early' if early else {READY!r})\n"
        "    os.read(0, 1 << 20)\n"
        f"os.write(1, {payload.marker!r})\n"
    )

    async def converse() -> bytes:
        (host,) = hosts_named("h1")
        channel = await ProcessChannel.open(host, [sys.executable, "-c", script], None)
        try:
            await asyncio.wait_for(channel.handshake(payload), START_S)
            return channel.noise
        finally:
            channel.kill()

    assert b"early" not in asyncio.run(converse())


def test_a_master_connection_that_hangs_is_named(tmp_path: Path) -> None:
    path, config = tmp_path / "master", tmp_path / "config"
    config.write_text(f"Host *\n  ControlMaster auto\n  ControlPath {path}\n")
    with socket.socket(socket.AF_UNIX) as master:
        master.bind(str(path))
        master.listen(8)
        reason = outcome_of(SshLauncher(config=config), new_payload(lease_s=5), 1.0)
    assert reason is not None and f"the ControlMaster of {path}" in reason


def test_a_master_that_greets_or_is_gone_is_not_blamed(tmp_path: Path) -> None:
    path = str(tmp_path / "master")
    assert not is_hung(path)
    with socket.socket(socket.AF_UNIX) as master:
        master.bind(path)
        assert not is_hung(path)  # nobody listens
    assert control_path("user me\ncontrolpath none\n") is None
    assert control_path("controlpath /tmp/x y\n") == "/tmp/x y"
