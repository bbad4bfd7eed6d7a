"""Options that say how to reach the hosts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from netprobe.probe.launchers.launch import Launcher

ViaOption = Annotated[
    str | None,
    typer.Option(
        "--via",
        help="How to reach the hosts: ssh (default), local, slurm (inside an allocation), mpi, kubectl, or a "
        "template such as 'ip netns exec {target}'. See netprobe docs launchers.",
    ),
]
SshConfigOption = Annotated[
    Path | None, typer.Option("--ssh-config", metavar="FILE", help="Passed to ssh as -F.")
]
SshOptionOption = Annotated[
    list[str] | None, typer.Option("--ssh-option", metavar="KEY=VALUE", help="Passed to ssh as -o.")
]
McaOption = Annotated[
    list[str] | None, typer.Option("--mca", metavar="KEY=VALUE", help="Passed to mpirun as --mca KEY VALUE.")
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="ADDR[:PORT]",
        help="Where agents dial back to (the address that routes to the hosts, any port).",
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="kubectl's context (its current one otherwise).")
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", help="Namespace of the pods (the context's otherwise).")
]
ContainerOption = Annotated[
    str | None, typer.Option("--container", help="Container of each pod (its default one otherwise).")
]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Passed to kubectl.")
]
SelectorOption = Annotated[
    str | None,
    typer.Option("--selector", metavar="LABELS", help="Scan the pods of these labels, such as app=worker."),
]
PythonOption = Annotated[
    str | None, typer.Option("--python", help="The Python to run on the hosts, 3.8 or later (python3).")
]
SetupOption = Annotated[
    str | None,
    typer.Option(
        "--setup",
        metavar="LINES",
        help="Shell lines to run on each host before Python: '. /etc/profile; module load python/3.11'.",
    ),
]
FanOutOption = Annotated[
    int | None,
    typer.Option("--fan-out", min=1, help="How many hosts are being connected to at a time (16)."),
]

StartTimeoutOption = Annotated[
    float,
    typer.Option("--start-timeout", metavar="SECONDS", help="A host not up by then is unreachable."),
]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How hosts are reached: the options of every command that starts agents."""

    via: ViaOption = None
    ssh_config: SshConfigOption = None
    ssh_option: SshOptionOption = None
    mca: McaOption = None
    listen: ListenOption = None
    context: ContextOption = None
    namespace: NamespaceOption = None
    container: ContainerOption = None
    kubeconfig: KubeconfigOption = None
    python: PythonOption = None
    setup: SetupOption = None
    fan_out: FanOutOption = None
    start_timeout: StartTimeoutOption = 30.0

    @property
    def way(self) -> str:
        """``--via``, or its default."""
        return "ssh" if self.via is None else self.via

    def launcher(self) -> Launcher:
        """Raises InputError for options that do not go with each other."""
        from netprobe.probe.launchers.via import LaunchOptions, parse_via

        options = LaunchOptions(
            ssh_config=self.ssh_config,
            ssh_options=self.ssh_option or [],
            mca=self.mca or [],
            listen=self.listen,
            context=self.context,
            namespace=self.namespace,
            container=self.container,
            kubeconfig=self.kubeconfig,
            fan_out=self.fan_out or 16,
        )
        return parse_via(self.way, options)

    def fields(self) -> dict[str, Any]:
        """Fields of ScanOptions."""
        return {"python": self.python, "setup": self.setup, "start_timeout_s": self.start_timeout}

    def given(self) -> list[str]:
        """Names of the options that say which way in is taken, of those that were given."""
        there = asdict(self)
        way_in = there.keys() - {"python", "setup", "start_timeout"}
        return ["--" + name.replace("_", "-") for name in there if name in way_in and there[name]]

    def inputs(self) -> list[Path]:
        """Files that are read."""
        return [path for path in (self.ssh_config, self.kubeconfig) if path is not None]


@contextlib.contextmanager
def hinting(enabled: bool) -> Iterator[None]:
    """Where no host came up and --via was not given, say so: it is the most likely reason."""
    from netprobe.core.errors import NothingMeasuredError

    try:
        yield
    except NothingMeasuredError as error:
        if not (enabled and error.nobody_up):
            raise
        raise NothingMeasuredError(f"{error} (no --via was given: is it the scan's way in?)") from None


def hosts_or_selector(hosts: str | None, selector: str | None) -> str | None:
    """``--selector app=x`` is ``--hosts k8s:app=x``. Raises InputError when both are given."""
    from netprobe.core.errors import InputError

    if selector is not None and hosts is not None:
        raise InputError("--selector and --hosts both say which hosts to scan: give one of them")
    return hosts if selector is None else f"k8s:{selector}"


def hosts_given(names: Sequence[str] | None, hosts: str | None) -> str | None:
    """What ``--hosts`` is, where hosts may be given without it: one source, or names. Raises InputError."""
    from netprobe.core.errors import InputError

    if not names:
        return hosts
    if hosts is not None:
        raise InputError("hosts are given twice, by --hosts and without it: give them once")
    if len(names) == 1:
        return names[0]
    files = [name for name in names if "," not in name and os.path.isfile(name)]  # noqa: PTH113 (never raises)
    if files:
        raise InputError(
            f"{files[0]!r} is a file, and a list of names goes on: give one file, or names alone"
        )
    return ",".join(names)
