"""One visit as it was measured: counts, and the raw samples as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.scan import GoodputReading, PathReading, Stamps
from netprobe.probe.percentile import percentiles

RTT = "rtt"
"""``id`` of the primary measurement."""
NS_PER_S = 1e9


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class VisitResult:
    """What a visit gave. ``src`` and ``dst`` are indices into the list of hosts.

    The three arrays have one entry a sample, in order of sending: sequence number (the probes are numbered
    from 1), seconds from the start of the series by the sender's monotonic clock, and RTT in seconds.
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
    seq: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    sent_at_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    rtt_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))

    @property
    def has_reading(self) -> bool:
        """Whether it gave what its method measures."""
        return bool(self.rtt_s.size) or self.goodput is not None or self.path is not None

    @property
    def p10_s(self) -> float | None:
        """10th percentile of this visit's RTT."""
        return percentiles(self.rtt_s, (10,))[0] if self.rtt_s.size else None

    @property
    def loss_ratio(self) -> float | None:
        """1 - received / sent; None when nothing was sent."""
        return 1 - self.received / self.sent if self.sent else None


def spent_s(visits: Sequence[VisitResult]) -> float:
    """Seconds from the start of the first of them to the end of the last."""
    if not visits:
        return 0.0
    return max(v.started_s + v.duration_s for v in visits) - min(v.started_s for v in visits)


def sample_arrays(samples: NDArray[np.int64] | Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """The arrays of a VisitResult from an agent's (sequence number, sent at ns, RTT ns)."""
    table = np.asarray(samples, dtype=np.int64).reshape(-1, 3)
    return {
        "seq": table[:, 0].astype(np.uint32),
        "sent_at_s": table[:, 1] / NS_PER_S,
        "rtt_s": table[:, 2] / NS_PER_S,
    }
