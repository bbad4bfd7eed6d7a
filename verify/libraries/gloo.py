"""Gloo's all_reduce through torch.distributed: one process per host, started as agents are.

torch sorts the ranks of a group made inside another one, so each order gets its own process group, created
again when the order changes; a smaller all-reduce opens its connections before the timed one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.probe.launchers.exec_launcher import ChildLauncher
from netprobe.probe.launchers.launch import Launcher
from netprobe.verify.libraries.library import check_algorithm, check_trial, seconds_in, text_in, warm_bytes
from netprobe.verify.libraries.process_group import LibraryError, ProcessGroup
from netprobe.verify.libraries.source import over_input

STARTS_AT_ONCE = 8
"""sshd begins to drop logins at 10 (MaxStartups)."""
LOOPBACK = "127.0.0.1"


class GlooLibrary:
    """Implements ``library.Library``. ``launcher`` is one with a process a host: ssh, kubectl, a template, local."""

    name = "gloo"
    algorithms = ("ring",)

    def __init__(self, launcher: Launcher, *, python: str | None = None) -> None:
        if not isinstance(launcher, ChildLauncher):
            raise InputError(
                "--with gloo starts one process a host: give --via ssh, kubectl, local or a template such as "
                "'srun -w {target}'"
            )
        self._launcher = launcher
        self._python = python or launcher.python

    @contextmanager
    def open(
        self,
        hosts: Sequence[Host],
        *,
        algorithm: str = "ring",
        start_timeout_s: float = 240.0,
        ended: threading.Event | None = None,
    ) -> Iterator[GlooSession]:
        """Start a process on each host, each with its torch; addresses are those of ``hosts``."""
        check_algorithm(self, algorithm)
        self._launcher.check(hosts)
        addresses = [LOOPBACK if self._launcher.local else host.address for host in hosts]
        for host, address in zip(hosts, addresses):
            if address is None:
                raise InputError(
                    f"host {host.name!r} has no address for Gloo to bind to: give the scan's hosts"
                )
        deadline = time.monotonic() + start_timeout_s
        with ProcessGroup(ended) as group:
            self._start(group, hosts, deadline)
            for i in range(len(hosts)):
                settings = {
                    "index": i,
                    "hosts": len(hosts),
                    "address": addresses[i],
                    "timeout_s": start_timeout_s,
                }
                group.send(i, _line(settings))
            ready = [group.receive(i, "ready", deadline) for i in range(len(hosts))]
            port = group.receive(0, "port", deadline)["port"]
            if not isinstance(port, int) or not 0 < port < 65536:
                raise LibraryError(f"{hosts[0].name} opened no port for the rendezvous")
            session = GlooSession(group, [host.name for host in hosts], f"torch {text_in(ready[0], 'ready')}")
            session.tell({"store": [addresses[0], port]})
            yield session

    def _start(self, group: ProcessGroup, hosts: Sequence[Host], deadline: float) -> None:
        argv, text = over_input("gloo_allreduce", self._python)
        for begin in range(0, len(hosts), STARTS_AT_ONCE):
            started = []
            for host in hosts[begin : begin + STARTS_AT_ONCE]:
                started.append(group.start(host.name, self._launcher.argv(host, argv), self._launcher.env))
                group.send(started[-1], text)
            for i in started:
                group.receive(i, "up", deadline)


class GlooSession:
    """Running processes. Implements ``library.LibrarySession``."""

    def __init__(self, group: ProcessGroup, names: Sequence[str], version: str) -> None:
        self._group = group
        self._names = list(names)
        self.version = version

    def tell(self, message: dict[str, Any]) -> None:
        """One line to every process."""
        for i in range(len(self._names)):
            self._group.send(i, _line(message))

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float = 120.0) -> float:
        """Seconds of one all-reduce."""
        check_trial(order, len(self._names), size_bytes)
        self.tell({"size_bytes": size_bytes, "warm_bytes": warm_bytes(size_bytes), "order": list(order)})
        deadline = time.monotonic() + timeout_s
        answers = [self._group.receive(i, "seconds", deadline) for i in range(len(self._names))]
        return max(seconds_in(answer, f"Gloo on {name}") for answer, name in zip(answers, self._names))


def _line(message: dict[str, Any]) -> bytes:
    return (json.dumps(message) + "\n").encode("ascii")
