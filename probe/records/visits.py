"""One visit as it was measured: counts, and where its raw samples are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.scan import GoodputReading, PathReading, Stamps
from netprobe.probe.records.percentile import percentiles
from netprobe.probe.records.samples import NO_SAMPLES, Samples, seconds

RTT = "rtt"
"""``id`` of the primary measurement."""


@dataclass(kw_only=True, eq=False, slots=True)
class VisitResult:
    """What a visit gave; never changed. ``src`` and ``dst`` are indices into the list of hosts.

    Its samples are those from ``start`` to ``stop`` of a table that visits which ended together share: a scan of
    a thousand hosts has a million visits, and an array each would take more room than what is in them. It is not
    frozen for the same reason: that would make its making four times as long.
    """

    src: int
    dst: int
    round: int
    started_s: float
    duration_s: float
    measurement: str = RTT
    method: str = "stamp"
    src_port: int | None = None
    dst_port: int | None = None
    stamps: Stamps | None = None
    sent: int = 0
    received: int = 0
    duplicates: int = 0
    rejected: int = 0
    beside: int = 0
    reason: str | None = None
    goodput: GoodputReading | None = None
    path: PathReading | None = None
    tried: bool = True
    """Whether its source was asked to; not kept in documents."""
    samples: Samples = NO_SAMPLES
    start: int = 0
    stop: int = 0

    @property
    def size(self) -> int:
        """How many samples it has."""
        return self.stop - self.start

    @property
    def seq(self) -> NDArray[np.uint32]:
        """(S,) sequence numbers of the probes, from 1, in order of sending."""
        return self.samples.seq[self.start : self.stop].astype(np.uint32)

    @property
    def sent_at_s(self) -> NDArray[np.float64]:
        """(S,) seconds from the start of the series by the sender's monotonic clock."""
        return seconds(self.samples.sent_at[self.start : self.stop])

    @property
    def rtt_s(self) -> NDArray[np.float64]:
        """(S,) round-trip times in seconds."""
        return seconds(self.samples.rtt[self.start : self.stop])

    @property
    def has_reading(self) -> bool:
        """Whether it gave what its method measures."""
        return self.stop > self.start or self.goodput is not None or self.path is not None

    @property
    def p10_s(self) -> float | None:
        """10th percentile of this visit's RTT."""
        return percentiles(self.rtt_s, (10,))[0] if self.stop > self.start else None

    @property
    def loss_ratio(self) -> float | None:
        """1 - received / sent; None when nothing was sent."""
        return 1 - self.received / self.sent if self.sent else None


def spent_s(visits: Sequence[VisitResult]) -> float:
    """Seconds from the start of the first of them to the end of the last."""
    if not visits:
        return 0.0
    return max(v.started_s + v.duration_s for v in visits) - min(v.started_s for v in visits)
