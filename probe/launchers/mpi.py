"""The launcher over Open MPI's ``mpirun``: one per host, or above 64 hosts a single one that starts all agents."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.core.openmpi_names import name_fault, naming_flags
from netprobe.core.system.scratch import scratch_folder
from netprobe.probe.launchers.bootstrap import Payload
from netprobe.probe.launchers.dial_back import DialBackLauncher
from netprobe.probe.launchers.exec_launcher import DEFAULT_FAN_OUT, ChildLauncher
from netprobe.probe.launchers.launch import Channel, LaunchFailure
from netprobe.probe.launchers.listen_address import ListenAt

MAX_SINGLE = 64
"""Up to so many hosts there is an mpirun for each; each costs a process and a daemon on the host."""


class MpiLauncher:
    """``mpirun`` as the user's own settings have it. A host is called by its ``launcher_name``.

    ``mca`` are ``KEY=VALUE`` parameters (``--mca KEY VALUE``). Implements ``launch.Launcher``.
    """

    local = False

    def __init__(
        self,
        *,
        mca: Sequence[str] = (),
        listen: ListenAt | None = None,
        fan_out: int = DEFAULT_FAN_OUT,
        max_single: int = MAX_SINGLE,
        program: str = "mpirun",
    ) -> None:
        base = [program, "--bind-to", "none"]
        base += mca_words(mca)
        self.program = program
        self.max_single = max_single
        self._single = _OneEach(base, fan_out=fan_out)
        self._all = _OneForAll(base, listen=listen)

    def check(self, hosts: Sequence[Host]) -> None:
        """The program must be there, and each host's name be one word of mpirun's lists."""
        if shutil.which(self.program) is None:
            raise PlatformError(f"no program {self.program!r} on this machine: --via mpi needs Open MPI")
        for host in hosts:
            if ":" in host.launcher_name:
                raise InputError(
                    f"host {host.name!r}: mpirun would read {host.launcher_name!r} as HOST:SLOTS; give it "
                    "another launcher_name"
                )
            fault = name_fault(host.launcher_name) if len(hosts) > self.max_single else None
            if fault:
                raise InputError(
                    f"host {host.name!r}: mpirun would misread {host.launcher_name!r} in a hostfile ({fault}); give it "
                    "another launcher_name"
                )

    async def launch(
        self, hosts: Sequence[Host], payload: Payload, timeout_s: float
    ) -> AsyncIterator[Channel | LaunchFailure]:
        """By whichever of the two ways suits the number of hosts."""
        self.check(hosts)
        way: _OneEach | _OneForAll = self._single if len(hosts) <= self.max_single else self._all
        async with aclosing(way.launch(hosts, payload, timeout_s)) as outcomes:  # type: ignore[type-var]
            async for outcome in outcomes:
                yield outcome


def mca_words(parameters: Sequence[str]) -> list[str]:
    """``KEY=VALUE`` each, as mpirun takes them. Raises InputError."""
    words: list[str] = []
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        if not equals or not key.replace("_", "a").isalnum() or not value.isprintable():
            raise InputError(f"--mca {parameter!r}: KEY=VALUE is needed, such as plm_rsh_agent=ssh")
        words += ["--mca", key, value]
    return words


class _OneEach(ChildLauncher):
    """``mpirun -n 1 --host H``; the agent speaks over mpirun's own forwarding."""

    def __init__(self, base: Sequence[str], *, fan_out: int) -> None:
        super().__init__(fan_out=fan_out)
        self._base = list(base)

    def argv(self, host: Host, command: Sequence[str]) -> list[str]:
        base = [*self._base, *naming_flags([host.launcher_name])]
        return [*base, "-n", "1", "--host", host.launcher_name, *command]


class _OneForAll(DialBackLauncher):
    """One ``mpirun`` over a hostfile: rank i is the host of line i. Standard input goes to all ranks."""

    variables = ("OMPI_COMM_WORLD_RANK",)

    def __init__(self, base: Sequence[str], *, listen: ListenAt | None) -> None:
        super().__init__(listen=listen)
        self._base = list(base)
        self._hostfile: Path | None = None

    def check(self, hosts: Sequence[Host]) -> None:
        """MpiLauncher has checked."""

    async def launch(
        self, hosts: Sequence[Host], payload: Payload, timeout_s: float
    ) -> AsyncIterator[Channel | LaunchFailure]:
        """As all that dial back, with a hostfile that is gone afterwards; it names hosts and no secret."""
        with scratch_folder() as folder:
            self._hostfile = folder / "hostfile"
            async with aclosing(super().launch(hosts, payload, timeout_s)) as outcomes:  # type: ignore[type-var]
                async for outcome in outcomes:
                    yield outcome

    def argv(self, hosts: Sequence[Host], command: Sequence[str]) -> list[str]:
        assert self._hostfile is not None
        self._hostfile.write_text("".join(f"{host.launcher_name}\n" for host in hosts), encoding="ascii")
        argv = [*self._base, *naming_flags(host.launcher_name for host in hosts)]
        argv += ["--mca", "orte_abort_on_non_zero_status", "0", "--continuous"]
        argv += ["--hostfile", str(self._hostfile), "-n", str(len(hosts)), "--map-by", "seq"]
        return [*argv, "--stdin", "all", *command]

    def identify(self, names: Mapping[str, str], hosts: Sequence[Host]) -> Host | None:
        """By its rank, which is its line in the hostfile."""
        rank = names.get("OMPI_COMM_WORLD_RANK", "")
        return hosts[int(rank)] if rank.isdecimal() and len(rank) < 7 and int(rank) < len(hosts) else None
