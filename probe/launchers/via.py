"""The launcher that a ``--via`` names."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.probe.launchers.exec_launcher import DEFAULT_FAN_OUT, ExecLauncher, LocalLauncher
from netprobe.probe.launchers.kubectl import KubectlLauncher
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.launchers.listen_address import parse_listen
from netprobe.probe.launchers.mpi import MpiLauncher
from netprobe.probe.launchers.slurm import SlurmLauncher
from netprobe.probe.launchers.ssh import SshLauncher

_VIAS_OF = {
    "ssh_config": ("--ssh-config", ("ssh",)),
    "ssh_options": ("--ssh-option", ("ssh",)),
    "mca": ("--mca", ("mpi",)),
    "listen": ("--listen", ("slurm", "mpi")),
    "context": ("--context", ("kubectl",)),
    "namespace": ("--namespace", ("kubectl",)),
    "container": ("--container", ("kubectl",)),
    "kubeconfig": ("--kubeconfig", ("kubectl",)),
}


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of the launchers; all but ``fan_out`` go with one or two of them."""

    ssh_config: Path | None = None
    ssh_options: Sequence[str] = ()
    mca: Sequence[str] = ()
    listen: str | None = None
    context: str | None = None
    namespace: str | None = None
    container: str | None = None
    kubeconfig: Path | None = None
    fan_out: int = DEFAULT_FAN_OUT


DEFAULTS = LaunchOptions()
VIAS = ("ssh", "local", "slurm", "mpi", "kubectl")
_ALSO = {"srun": "slurm", "mpirun": "mpi", "openmpi": "mpi", "kubernetes": "kubectl", "k8s": "kubectl"}
"""What people call a launcher, and its name here."""


def parse_via(text: str = "ssh", options: LaunchOptions = DEFAULTS) -> Launcher:
    """``ssh``, ``local``, ``slurm``, ``mpi``, ``kubectl``, or a template such as ``ip netns exec {target}``.

    Raises InputError, also for an option of another launcher.
    """
    for name, (option, vias) in _VIAS_OF.items():
        if getattr(options, name) not in (None, (), []) and text not in vias:
            raise InputError(f"{option} goes with --via {' or '.join(vias)}, not with --via {text!r}")
    listen = None if options.listen is None else parse_listen(options.listen)
    fan_out = options.fan_out
    if text == "ssh":
        return SshLauncher(config=options.ssh_config, options=options.ssh_options, fan_out=fan_out)
    if text == "local":
        return LocalLauncher(fan_out=fan_out)
    if text == "slurm":
        return SlurmLauncher(listen=listen)
    if text == "mpi":
        return MpiLauncher(mca=options.mca, listen=listen, fan_out=fan_out)
    if text == "kubectl":
        return KubectlLauncher(
            context=options.context,
            namespace=options.namespace,
            container=options.container,
            kubeconfig=options.kubeconfig,
            fan_out=fan_out,
        )
    if not text.split()[1:] and shutil.which(text) is None:
        hint = meant(text, VIAS, others=_ALSO)
        if hint:
            raise InputError(
                f"--via {text[:60]!r} is neither a launcher ({', '.join(VIAS)}, or a template) nor a program{hint}"
            )
    return ExecLauncher(text, fan_out=fan_out)
