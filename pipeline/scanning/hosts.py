"""The hosts that ``--hosts`` names, or that the launcher knows by itself."""

from __future__ import annotations

from collections.abc import Callable

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats import load_hosts
from netprobe.pipeline.scanning.pods import PODS, pods_to_scan
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.options import ScanOptions

KNOW_THEIR_HOSTS = ("slurm",)
"""Values of ``--via`` that need no ``--hosts``."""


def hosts_to_scan(
    hosts: str | None,
    via: str,
    launcher: Launcher | None,
    on_note: Callable[[str], None],
    *,
    options: ScanOptions | None = None,
) -> tuple[Host, ...]:
    """The hosts of ``--hosts``, or those that the launcher knows by itself. Raises InputError.

    ``on_note`` receives a line about pods that have ended; ``options`` may say which of a pod's addresses is probed.
    """
    if hosts is None and via not in KNOW_THEIR_HOSTS:
        raise InputError("give either --hosts FILE or --lab SPEC")
    if hosts is not None and hosts.startswith(PODS):
        requested = options is not None and (options.family, options.subnet, options.interface) != (None,) * 3
        found, notes = pods_to_scan(launcher, hosts.removeprefix(PODS), asks_address=requested)
        for text in notes:
            on_note(text)
        return found
    return load_hosts(f"{via}:" if hosts is None else hosts)
