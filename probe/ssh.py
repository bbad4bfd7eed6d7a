"""The launcher over the real OpenSSH client: the user's own configuration, jump hosts and keys just work."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.probe.exec_launcher import DEFAULT_FAN_OUT, ChildLauncher, environment

CONNECT_TIMEOUT_S = 10
_TARGET = re.compile(r"[A-Za-z0-9._:@%+=,~/\[\]-]+")


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

    def argv(self, host: Host, command: Sequence[str]) -> list[str]:
        """The client's arguments; ssh hands the last one, quoted as a whole, to the login shell."""
        argv = [self.program, "-T", "-a", "-x", "-oBatchMode=yes"]
        argv += [] if self.config is None else ["-F", str(self.config)]
        argv += [f"-o{option}" for option in self.options]
        argv += [f"-oConnectTimeout={CONNECT_TIMEOUT_S}", "-oClearAllForwardings=yes", "-oRemoteCommand=none"]
        return [*argv, "--", host.target, "exec " + shlex.join(command)]
