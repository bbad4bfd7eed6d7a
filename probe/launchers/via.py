"""The launcher that a ``--via`` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InputError
from netprobe.probe.launchers.exec_launcher import DEFAULT_FAN_OUT, ExecLauncher, LocalLauncher
from netprobe.probe.launchers.kubectl import KubectlLauncher
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.launchers.listen_address import parse_listen
from netprobe.probe.launchers.mpi import MpiLauncher
from netprobe.probe.launchers.slurm import SlurmLauncher
from netprobe.probe.launchers.ssh import SshLauncher

_BELONGS = {
    "ssh_config": ("--ssh-config", ("ssh",)),
    "ssh_options": ("--ssh-option", ("ssh",)),
    "mca": ("--mca", ("mpi",)),
    "listen": ("--listen", ("slurm", "mpi")),
    "context": ("--context", ("kubectl",)),
    "namespace": ("--namespace", ("kubectl",)),
    "container": ("--container", ("kubectl",)),
    "kubeconfig": ("--kubeconfig", ("kubectl",)),
}


def parse_via(
    text: str = "ssh",
    *,
    ssh_config: Path | None = None,
    ssh_options: Sequence[str] = (),
    mca: Sequence[str] = (),
    listen: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    container: str | None = None,
    kubeconfig: Path | None = None,
    fan_out: int = DEFAULT_FAN_OUT,
) -> Launcher:
    """``ssh``, ``local``, ``slurm``, ``mpi``, ``kubectl``, or a template such as ``ip netns exec {target}``.

    Raises InputError, also for an option that goes with another one.
    """
    given = {"ssh_config": ssh_config, "ssh_options": ssh_options, "mca": mca, "listen": listen}
    of_kubectl = {
        "context": context,
        "namespace": namespace,
        "container": container,
        "kubeconfig": kubeconfig,
    }
    given |= of_kubectl
    for name, (option, homes) in _BELONGS.items():
        if given[name] not in (None, (), []) and text not in homes:
            raise InputError(f"{option} goes with --via {' or '.join(homes)}, not with --via {text!r}")
    at = None if listen is None else parse_listen(listen)
    if text == "ssh":
        return SshLauncher(config=ssh_config, options=ssh_options, fan_out=fan_out)
    if text == "local":
        return LocalLauncher(fan_out=fan_out)
    if text == "slurm":
        return SlurmLauncher(listen=at)
    if text == "mpi":
        return MpiLauncher(mca=mca, listen=at, fan_out=fan_out)
    if text == "kubectl":
        return KubectlLauncher(
            context=context, namespace=namespace, container=container, kubeconfig=kubeconfig, fan_out=fan_out
        )
    return ExecLauncher(text, fan_out=fan_out)
