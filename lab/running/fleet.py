"""A running lab: where its files are, how to run something in it, how to change it while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from netprobe.core.errors import InputError
from netprobe.lab.kernel import enter_argv, find_program, namespace_path, require_root
from netprobe.lab.running import access, setting
from netprobe.lab.running.orphans import names_without_directory, why_unreadable
from netprobe.lab.running.setting import some
from netprobe.lab.spec.layout import LabHost, Layout, lay_out
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.state import LabState, directory_of, lab_names
from netprobe.lab.switch.control import tell_switch
from netprobe.lab.truth import Truth, load_truth

TRUTH_FILE = "truth.json"


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A lab on this machine. ``status`` is ``broken`` when it was never finished, or lost its switch or a
    host."""

    name: str
    status: Literal["up", "broken"]
    seed: int
    spec: LabSpec
    layout: Layout
    has_sshd: bool

    @property
    def directory(self) -> Path:
        """The lab's private directory, which goes with the lab."""
        return directory_of(self.name)

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        """The rank hosts, in the order of the hosts file."""
        return self.layout.hosts

    @property
    def hosts_path(self) -> Path:
        """The hosts file."""
        return self.directory / access.HOSTS_FILE

    @property
    def truth_path(self) -> Path:
        """The ground truth, schema ``netprobe.truth/1.0``."""
        return self.directory / TRUTH_FILE

    @property
    def ssh_config_path(self) -> Path | None:
        """The client's ssh_config, to be used from the controller; None without sshd."""
        return self.directory / access.SSH_CONFIG_FILE if self.has_sshd else None

    @property
    def rsh_agent_argv(self) -> tuple[str, ...]:
        """What replaces ssh: HOST and a command follow. Joined by spaces: mpirun's ``plm_rsh_agent``."""
        # Through sh: /run is often mounted noexec.
        return ("/bin/sh", str(self.directory / access.RSH_AGENT_FILE))

    @property
    def via_template(self) -> str:
        """A launcher template that enters a host's network and host name; it takes ``{target}``."""
        hostnames = self.directory / access.HOSTNAMES_DIRECTORY
        return f"{find_program('nsenter')} --net={namespace_path('{target}')} --uts={hostnames}/{{target}} --"

    def truth(self) -> Truth:
        """Read the ground truth. Raises DocumentError."""
        return load_truth(self.truth_path)

    def host(self, name: str) -> LabHost:
        """The host of a name, target or address. Raises InputError that lists the hosts."""
        for host in self.hosts:
            if name in (host.name, host.target, host.address):
                return host
        raise InputError(
            f"lab {self.name} has no host {name[:64]!r}: it has {some(host.name for host in self.hosts)}"
        )

    def exec_argv(self, host: str | None, argv: Sequence[str]) -> list[str]:
        """The argv that runs ``argv`` on a host, or on the controller for None. Raises InputError.

        The process gets the host's network and host name, and shares all else with this machine.
        """
        if not argv:
            raise InputError("no command was given to run in the lab")
        there = self.layout.controller if host is None else self.host(host)
        return [*enter_argv(there.target, self.directory / access.HOSTNAMES_DIRECTORY), *argv]

    def stats(self) -> dict[str, int]:
        """The switch's counters: packets and bytes, and how late it sent, in ns, since they were last read."""
        (answer,) = tell_switch(self.directory, ["stats"])
        return {key: int(value) for key, _, value in (word.partition("=") for word in answer.split())}


def find(name: str) -> Lab:
    """The lab of a name. Raises InputError, listing the labs there are, when there is none."""
    require_root()
    reason = ""
    if name in lab_names():
        lab = _read(name)
        if lab is not None:
            return lab
        reason = why_unreadable(name)
    elif name in names_without_directory():
        reason = "its directory was deleted"
    if reason:
        raise InputError(f"lab {name} cannot be used: {reason}; take it down (netprobe lab down {name})")
    raise unknown_lab(name)


def list_labs() -> list[Lab]:
    """All labs on this machine that can be read, by name, broken ones included; orphans.py has the others."""
    require_root()
    return [lab for lab in map(_read, lab_names()) if lab is not None]


def set_value(lab: Lab, what: str, key: str, value: str) -> None:
    """Change a running lab.

    ``what`` is a host, two hosts (``a:b``, or ``a>b`` for one way), a rack such as ``rack0``, two racks
    (``rack0:rack2``, ``rack0>rack2``), or ``all``; docs/lab.md has the keys of each. Values carry units:
    ``80Mbit/s``, ``unlimited``, ``150us``, ``20%``. The truth keeps what was configured at first.
    Raises InputError for anything else, PlatformError when the switch does not answer.
    """
    if lab.status != "up":
        raise InputError(f"lab {lab.name} is broken: take it down and up again")
    tell_switch(lab.directory, setting.commands(lab.spec, lab.layout, what, key, value, lab=lab.name))


def unknown_lab(name: str) -> InputError:
    """The error for a name that no lab has."""
    names = sorted({*lab_names(), *names_without_directory()})
    there = f"there are {some(names)}" if names else "there is none on this machine"
    return InputError(f"no lab is called {name[:64]!r}: {there}")


def _read(name: str) -> Lab | None:
    state = LabState.load(directory_of(name))
    if state is None or why_unreadable(name):
        return None
    spec = LabSpec.from_spec(state.spec)
    alive = (
        state.status == "up"
        and state.switch is not None
        and state.switch.is_alive()
        # Anybody may have deleted a host by `ip netns del`.
        and all(namespace_path(one).exists() for one in state.namespaces)
    )
    return Lab(
        name=name,
        status="up" if alive else "broken",
        seed=state.seed,
        spec=spec,
        layout=lay_out(spec, seed=state.seed, name=name),
        has_sshd=state.sshd,
    )
