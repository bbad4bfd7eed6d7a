"""Live progress of a scan on stderr: rounds, links, time left. Plain lines where stderr is not a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from netprobe.cli.output import Output
from netprobe.core.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from netprobe.probe.records.events import Event, RoundDone


class ScanProgress:
    """A context manager whose ``on_event`` and ``on_stage`` go to the pipeline."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._now = ("starting agents", True)
        """The bar's words, and whether it has no end."""
        self.warned: set[str] = set()
        """The warnings already shown."""
        self._failed: dict[str, list[str]] | None = {}
        """While agents start: the hosts that failed, by the reason; the first of each was told."""

    def __enter__(self) -> ScanProgress:
        if self._output.live:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            what = TextColumn("{task.description}", markup=False)
            columns = (what, BarColumn(), TextColumn("{task.fields[detail]}", markup=False))
            self._progress = Progress(
                *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
            )
            self._progress.start()
            self._task = self._progress.add_task("starting agents", total=None, detail="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell_failed()
        if self._progress is not None:
            self._progress.stop()

    def on_stage(self, stage: str) -> None:
        """A stage of the chain begins."""
        words = {
            "map": "mapping",
            "capacity": "measuring capacity",
            "plan": "ordering",
            "export": "exporting",
        }
        if stage in words:
            self._update(words[stage], total=None, detail="")

    def on_event(self, event: Event) -> None:
        """Something happened in the scan."""
        from netprobe.probe.records import events

        if isinstance(event, events.HostUp):
            self._update("starting agents", total=event.total, completed=event.up, detail=f"{event.up} up")
        elif isinstance(event, events.HostFailed):
            self._host_failed(event.host, event.reason)
        elif isinstance(event, events.AgentsUp):
            self._tell_failed()
            self._update("probing", total=None, detail="")
            if self._progress is None:
                from netprobe.core.units import count

                agents = count(event.total, "agent")
                self._output.note(f"{event.up} of {agents} up after {event.elapsed_s:.1f} s")
        elif isinstance(event, events.RoundDone):
            self._round(event)
        elif isinstance(event, events.Step):
            left = "" if event.left_s is None else f", up to {event.left_s:.0f} s left"
            self._update(event.text, total=None, detail=event.detail + left)
        elif isinstance(event, events.ScanWarning):
            self.warned.add(event.text)
            self._line(f"warning: {event.text}")

    def _host_failed(self, host: str, reason: str) -> None:
        """One wrong key is one line, however many hosts refuse it."""
        if self._failed is not None and reason in self._failed:
            self._failed[reason].append(host)
            return
        if self._failed is not None:
            self._failed[reason] = []
        self._line(f"{host}: {reason}")

    def _tell_failed(self) -> None:
        from netprobe.core.text import listed

        for reason, hosts in (self._failed or {}).items():
            if hosts:
                self._line(f"{listed(hosts)}: {reason}")
        self._failed = None

    def _round(self, event: RoundDone) -> None:
        left = "" if event.left_s is None else f", {event.left_s:.0f} s left"
        total = event.rounds_total
        detail = f"round {event.rounds_done}" + (f" of {total}" if total else "")
        detail += (
            f", {event.links_done}" + (f" of {event.links_total}" if event.links_total else "") + " links"
        )
        what = {"capacity": "testing flows"}.get(event.measurement, f"probing {event.measurement}")
        self._update(what, total=total, completed=event.rounds_done, detail=detail + left)

    def _update(self, description: str, *, total: int | None, detail: str, completed: int = 0) -> None:
        if self._progress is None or self._task is None:
            return
        if (description, total is None) != self._now:
            # A new bar: rich's update(total=None) would keep the old total, and a full bar that stands still.
            self._now = (description, total is None)
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task(description, total=total, completed=completed, detail=detail)
            return
        self._progress.update(self._task, total=total, completed=completed, detail=detail)

    def _line(self, text: str) -> None:
        if self._progress is not None:
            console = self._progress.console
            console.print(printable(text), markup=False, emoji=False, highlight=False, soft_wrap=True)
        else:
            self._output.note(text)


@contextlib.contextmanager
def working(output: Output, what: str) -> Iterator[None]:
    """A moving bar and the time on stderr while something is computed; nothing where stderr is not a terminal."""
    if not output.live:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(what, total=None)
        yield
