"""What a scan tells its caller while it runs. Times are seconds on the controller's monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from netprobe.probe.records.visits import VisitResult


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of the events."""


@dataclass(frozen=True, kw_only=True)
class HostUp(Event):
    """An agent is up."""

    host: str
    up: int
    total: int


@dataclass(frozen=True, kw_only=True)
class HostFailed(Event):
    """A host was not reached, or its agent died or hung later."""

    host: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class AgentsUp(Event):
    """All launches have ended, and probing begins."""

    up: int
    total: int
    elapsed_s: float


@dataclass(frozen=True, kw_only=True)
class VisitDone(Event):
    """A visit ended. What it gave is computed for who looks at it: of a million visits most are not looked at."""

    src: str
    dst: str
    visit: VisitResult

    @property
    def round(self) -> int:
        """Its round."""
        return self.visit.round

    @property
    def measurement(self) -> str:
        """``id`` of its measurement."""
        return self.visit.measurement

    @property
    def rtt_s(self) -> float | None:
        """Its 10th percentile, None when it gave no reading."""
        return self.visit.p10_s

    @property
    def loss_ratio(self) -> float | None:
        """None when nothing was sent."""
        return self.visit.loss_ratio

    @property
    def reason(self) -> str | None:
        """Why it gave no reading."""
        return self.visit.reason


@dataclass(frozen=True, kw_only=True)
class RoundDone(Event):
    """A round ended. Links are those of the phase; totals are its chooser's estimate, None when it has none."""

    measurement: str
    rounds_done: int
    rounds_total: int | None
    links_done: int
    links_total: int | None
    elapsed_s: float
    left_s: float | None


@dataclass(frozen=True, kw_only=True)
class ScanWarning(Event):
    """Something a reader of the results should know."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Step(Event):
    """What is being done now, where it is not a round of links, and the seconds that it takes at most from now on."""

    text: str
    detail: str
    left_s: float | None = None


OnEvent = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """An ``on_event`` that does nothing."""


class Teller:
    """An ``on_event`` in front of the caller's: an error there must not cost the scan.

    ``warnings`` collects what a reader of the document should know.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event: OnEvent | None = on_event
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> list[str]:
        """The texts of all warnings so far, each once."""
        return list(self._warnings)

    def __call__(self, event: Event) -> None:
        if isinstance(event, ScanWarning):
            self._warnings[event.text] = None
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:
            self._on_event = None
            text = (
                f"what shows the progress failed, and is sent nothing more: {type(error).__name__}: {error}"
            )
            self._warnings[text] = None
