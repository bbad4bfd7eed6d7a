"""The launcher over the real OpenSSH client: the user's own configuration, jump hosts and keys just work."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.probe.launchers.exec_launcher import DEFAULT_FAN_OUT, ChildLauncher, environment

CONNECT_TIMEOUT_S = 10
ALIVE = ("-oServerAliveInterval=30", "-oServerAliveCountMax=10")
"""A firewall forgets a connection on which a job says nothing for long, and a host that is gone says nothing of it.
After five minutes without an answer the other end gives up too."""
_TARGET = re.compile(r"[A-Za-z0-9._:@%+=,~/\[\]-]+")
CONFIG_TIMEOUT_S = 3
GREETING_S = 1.0


class SshLauncher(ChildLauncher):
    """``ssh TARGET``, one client a host.

    Host keys are checked as the user's configuration says; netprobe never turns that off. ``options`` are
    ``-o`` options (``Port=2222``), which win over netprobe's own, apart from BatchMode: a question nobody
    can answer would hang the scan.
    """

    def __init__(
        self,
        *,
        config: Path | None = None,
        options: Sequence[str] = (),
        fan_out: int = DEFAULT_FAN_OUT,
        program: str = "ssh",
    ) -> None:
        super().__init__(fan_out=fan_out)
        self.config = config
        self.options = tuple(options)
        self.program = program
        self.env = environment(SSH_ASKPASS_REQUIRE="never")
        for option in self.options:
            if not option or option.startswith("-") or not option.isprintable():
                raise InputError(f"--ssh-option {option!r}: give an option of ssh_config, such as Port=2222")
        if config is not None and not config.is_file():
            raise InputError(f"--ssh-config {str(config)!r}: no such file")

    def check(self, hosts: Sequence[Host]) -> None:
        """The client must be there, and no target may mean something to a shell.

        ssh hands a target on to the ProxyCommand of the user's configuration, which a shell reads.
        """
        for host in hosts:
            if not _TARGET.fullmatch(host.target):
                raise InputError(
                    f"host {host.name!r}: the ssh target {host.target!r} has characters other than letters, digits "
                    "and . _ : @ % + = , ~ / [ ] -"
                )
        if shutil.which(self.program) is None:
            raise PlatformError(
                f"no program {self.program!r} on this machine: install the OpenSSH client, or give --via"
            )

    async def route(self, host: Host) -> str | None:
        """The first jump host, as ssh itself reads its configuration (``ssh -G``)."""
        argv = [*self._start(), "-G", "--", host.target]
        return first_jump(await asyncio.to_thread(_said, argv, self.env))

    async def why_silent(self, host: Host) -> str:
        """A master connection that hangs, where there is one: ssh waits for it without a word and without end."""
        path = control_path(
            await asyncio.to_thread(_said, [*self._start(), "-G", "--", host.target], self.env)
        )
        if path is not None and await asyncio.to_thread(is_hung, path):
            return (
                f"the ControlMaster of {path} does not answer: end it (ssh -O exit {host.target}, or remove that "
                "socket), or give --ssh-option ControlPath=none"
            )
        return await super().why_silent(host)

    def argv(self, host: Host, command: Sequence[str]) -> list[str]:
        """The client's arguments; ssh hands the last one, quoted as a whole, to the login shell."""
        argv = [
            *self._start(),
            f"-oConnectTimeout={CONNECT_TIMEOUT_S}",
            *ALIVE,
            "-oClearAllForwardings=yes",
            "-oRemoteCommand=none",
        ]
        return [*argv, "--", host.target, "exec " + shlex.join(command)]

    def _start(self) -> list[str]:
        argv = [self.program, "-T", "-a", "-x", "-oBatchMode=yes"]
        argv += [] if self.config is None else ["-F", str(self.config)]
        return argv + [f"-o{option}" for option in self.options]


def _said(argv: Sequence[str], env: dict[str, str] | None) -> str:
    """What a program prints within the time; empty when it does not."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=env,
            timeout=CONFIG_TIMEOUT_S,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def control_path(config: str) -> str | None:
    """The socket of a shared connection in what ``ssh -G`` prints; None where there is none."""
    for line in config.splitlines():
        key, _, value = line.partition(" ")
        if key.lower() == "controlpath" and value.strip().lower() not in ("", "none"):
            return value.strip()
    return None


def is_hung(path: str) -> bool:
    """Whether the socket of a shared connection takes a client and does not greet it, as a master does at once."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
        client.settimeout(GREETING_S)
        try:
            client.connect(path)
            return not client.recv(1)
        except (TimeoutError, BlockingIOError):
            return True
        except OSError:
            return False  # nobody listens: ssh makes a connection of its own


def first_jump(config: str) -> str | None:
    """The first host of ``proxyjump`` in what ``ssh -G`` prints; None where there is none."""
    for line in config.splitlines():
        key, _, value = line.partition(" ")
        if key.lower() == "proxyjump" and value.strip().lower() not in ("", "none"):
            return value.split(",")[0].strip()
    return None
