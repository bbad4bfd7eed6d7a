"""The hosts of a label: pods that kubectl lists, for the launcher that goes to them."""

from __future__ import annotations

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.text import listed
from netprobe.formats.host_lists.kubernetes_pods import ENDED, parse_pods, pod_hosts
from netprobe.probe.launchers.kubectl import KubectlLauncher
from netprobe.probe.launchers.launch import Launcher

PODS = "k8s:"
"""What ``--hosts`` begins with where a label selector follows."""


def pods_to_scan(
    launcher: Launcher | None, selector: str, *, asks_address: bool = False
) -> tuple[tuple[Host, ...], list[str]]:
    """The pods of a selector, and notes on those that have ended and are not hosts any more.

    ``asks_address``: the user says which addresses are probed (a family, a network, an interface), so that they are
    chosen among all that the agents report, and not what Kubernetes calls the pod's.

    A pod that does not run yet is a host: its scan says that it is missing, and why. Raises InputError.
    """
    if not isinstance(launcher, KubectlLauncher):
        raise InputError(f"{PODS}{selector} names pods: give --via kubectl with it")
    pods = parse_pods(launcher.list_pods(selector))
    hosts = pod_hosts(pods)
    if asks_address:
        hosts = tuple(host.model_copy(update={"address": None}) for host in hosts)
    launcher.not_running = {pod.name: pod.not_running for pod in pods if pod.not_running is not None}
    ended = [pod for pod in pods if pod.phase in ENDED]
    named = listed([f"{pod.name} ({pod.phase})" for pod in ended], 8)
    return hosts, [f"left out, since they have ended: {named}"] if ended else []
