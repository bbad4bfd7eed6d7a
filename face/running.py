"""How a measurement is run: the way to the hosts, what its caller hears, and a loop besides a notebook's."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from netprobe.core.errors import InputError
from netprobe.core.text import one_line
from netprobe.face import arguments
from netprobe.face.labs import Lab
from netprobe.probe.fleet.stopping import stop_thread
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.launchers.via import LaunchOptions, parse_via
from netprobe.probe.records import events
from netprobe.probe.records.events import OnEvent
from netprobe.probe.records.options import ScanOptions

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How hosts are reached. ``via`` is ssh, local, slurm, mpi, kubectl, or a template such as
    ``ip netns exec {target}`` (docs/launchers.md)."""

    via: str = "ssh"
    ssh_config: str | os.PathLike[str] | None = None
    """Passed to ssh as -F."""
    ssh_options: Sequence[str] = ()
    """``KEY=VALUE``, passed to ssh as -o."""
    python: str | None = None
    """The Python to run on the hosts, 3.8 or later."""
    setup: str | None = None
    """Shell lines to run on each host before Python."""
    start_timeout_s: float = 30.0
    """A host not up by then is unreachable."""
    fan_out: int = 16
    """How many hosts are being connected to at a time."""

    def launcher(self) -> Launcher:
        """Raises InputError."""
        if not isinstance(self.via, str) or not self.via.strip():
            raise InputError(
                f"via is {one_line(repr(self.via), 60)}: a launcher's name or a template is needed"
            )
        if isinstance(self.ssh_options, str) or not all(isinstance(one, str) for one in self.ssh_options):
            raise InputError("ssh_options: a list of texts such as 'Port=2222' is needed")
        config = None if self.ssh_config is None else arguments.place(self.ssh_config, "ssh_config")
        options = LaunchOptions(
            ssh_config=config,
            ssh_options=self.ssh_options,
            fan_out=arguments.whole(self.fan_out, "fan_out", least=1),
        )
        return parse_via(self.via, options)

    def agents(self, options: ScanOptions | None = None) -> ScanOptions:
        """Options of a scan, with what this says of the agents."""
        seconds = arguments.number(self.start_timeout_s, "start_timeout_s")
        given = ScanOptions(python=self.python, setup=self.setup, start_timeout_s=seconds, latency="auto")
        if options is None:
            return given
        changes = {
            key: getattr(given, key)
            for key in ("python", "setup", "start_timeout_s")
            if getattr(given, key) != getattr(ScanOptions(), key)
        }
        return replace(options, **changes)


def reach_of(via: str | Reach | Lab | None, lab: Lab | None = None) -> Reach:
    """The way in that is given; a lab has its own. Raises InputError."""
    if lab is not None and via is not None and via is not lab:
        raise InputError("via cannot go with a lab, which has its own way in: leave it out")
    inside = lab if lab is not None else via
    if isinstance(inside, Lab):
        # This Python rather than the python3 that PATH finds: the lab's hosts are this machine.
        return Reach(via=inside.via, python=shlex.quote(sys.executable))
    if isinstance(via, Reach):
        return via
    if via is None or isinstance(via, str):
        return Reach() if via is None else Reach(via=via)
    raise InputError(
        f"via is {one_line(repr(via), 60)}: a text, a netprobe.Reach or a netprobe.Lab is needed"
    )


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a measurement tells its caller while it runs."""

    kind: Literal["agents", "links", "step", "host_failed", "warning"]
    text: str
    """For a person, on one line."""
    done: int = 0
    """Agents that are up, or links that were measured."""
    total: int | None = None
    """Of how many; None where that is not known."""
    left_s: float | None = None


OnProgress = Callable[[Progress], object]


def listener(progress: OnProgress | None) -> OnEvent:
    """What the library calls, for what the caller wants to hear. Raises InputError for what cannot be called."""
    if progress is None:
        return events.ignore
    if not callable(progress):
        raise InputError(f"progress is {one_line(repr(progress), 60)}: a function of one argument is needed")

    def on_event(event: events.Event) -> None:
        found = _progress(event)
        if found is not None:
            progress(found)

    return on_event


def _progress(event: events.Event) -> Progress | None:
    if isinstance(event, events.HostUp):
        return Progress(kind="agents", text="starting agents", done=event.up, total=event.total)
    if isinstance(event, events.HostFailed):
        return Progress(kind="host_failed", text=one_line(f"{event.host}: {event.reason}"))
    if isinstance(event, events.RoundDone):
        return Progress(
            kind="links",
            text=f"measuring {event.measurement}",
            done=event.links_done,
            total=event.links_total,
            left_s=event.left_s,
        )
    if isinstance(event, events.ScanWarning):
        return Progress(kind="warning", text=one_line(event.text))
    if isinstance(event, events.Step):
        return Progress(kind="step", text=one_line(f"{event.text} {event.detail}"), left_s=event.left_s)
    return None


def beside_loops(work: Callable[[], T]) -> T:
    """Run work that has a loop of its own; in a thread where a loop runs already, as in a notebook.

    Ctrl-C stops it as it does without the thread: what was measured is kept, and InterruptedScanError says where.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    ended: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="netprobe", daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt:
            if not stop_thread(thread):
                raise
    if failed:
        raise failed[0]
    return ended[0]
