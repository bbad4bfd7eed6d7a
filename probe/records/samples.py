"""The raw samples of visits: those that ended together share one table, in the least room that loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NS_PER_S = 1e9
_MOST_EXACT_NS = float(1 << 53)
_RECORD = np.dtype([("seq", ">u4"), ("sent_at_ns", ">i8"), ("rtt_ns", ">i8")])


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleColumns:
    """(S,) samples of one answer or more as integers: sequence number, sent at and RTT in ns."""

    seq: NDArray[np.int64]
    sent_at_ns: NDArray[np.int64]
    rtt_ns: NDArray[np.int64]

    @classmethod
    def of_bytes(cls, records: bytes) -> SampleColumns:
        """Of records as they travel."""
        table = np.frombuffer(records, dtype=_RECORD)
        return cls(
            seq=table["seq"].astype(np.int64),
            sent_at_ns=table["sent_at_ns"].astype(np.int64),
            rtt_ns=table["rtt_ns"].astype(np.int64),
        )

    @classmethod
    def of_rows(cls, rows: NDArray[np.int64] | Sequence[tuple[int, int, int]]) -> SampleColumns:
        """Of (S, 3) rows of these."""
        table = np.asarray(rows, dtype=np.int64).reshape(-1, 3)
        return cls(seq=table[:, 0], sent_at_ns=table[:, 1], rtt_ns=table[:, 2])

    def possible(self, within_ns: int) -> NDArray[np.bool_]:
        """(S,) which of them can be: no time is negative or longer than the request itself, and none came at once."""
        sent, rtt = self.sent_at_ns, self.rtt_ns
        found: NDArray[np.bool_] = (sent >= 0) & (sent <= within_ns) & (rtt >= 1) & (rtt <= within_ns)
        return found


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Samples:
    """(S,) columns: sequence number, time of sending and round-trip time.

    Times are whole nanoseconds, in 4 bytes where they fit. Seconds (float64) stay seconds where they are no
    whole nanoseconds, as only a journal of a stranger can have them.
    """

    seq: NDArray[np.unsignedinteger[Any]]
    sent_at: NDArray[Any]
    rtt: NDArray[Any]

    @classmethod
    def of(cls, columns: SampleColumns) -> Samples:
        """None of the numbers may be negative, and sequence numbers have 32 bits."""
        return cls(
            seq=_small(columns.seq, np.uint16, np.uint32),
            sent_at=_small(columns.sent_at_ns, np.uint32, np.int64),
            rtt=_small(columns.rtt_ns, np.uint32, np.int64),
        )

    @classmethod
    def of_seconds(
        cls, seq: NDArray[np.unsignedinteger[Any]], sent_at_s: ArrayLike, rtt_s: ArrayLike
    ) -> Samples:
        """To the bit: what is given comes back."""
        return cls(seq=_small(seq, np.uint16, np.uint32), sent_at=_whole_ns(sent_at_s), rtt=_whole_ns(rtt_s))

    def __len__(self) -> int:
        return len(self.seq)


NO_SAMPLES = Samples(seq=np.empty(0, np.uint16), sent_at=np.empty(0, np.uint32), rtt=np.empty(0, np.uint32))


def seconds(times: NDArray[Any]) -> NDArray[np.float64]:
    """One of the columns of times, or a part of it."""
    return times if times.dtype == np.float64 else times / NS_PER_S


def sample_fields(samples: Samples) -> dict[str, Any]:
    """The fields of a VisitResult whose samples these are, all of them."""
    return {"samples": samples, "start": 0, "stop": len(samples)}


def _small(values: NDArray[Any], small: Any, large: Any) -> NDArray[Any]:
    fits = not len(values) or int(values.max()) <= np.iinfo(small).max
    return values.astype(small if fits else large)


def _whole_ns(values_s: ArrayLike) -> NDArray[Any]:
    values = np.asarray(values_s, dtype=np.float64)
    if not len(values) or not (values.min() >= 0 and values.max() * NS_PER_S < _MOST_EXACT_NS):
        return values.copy()
    ns = np.rint(values * NS_PER_S)
    if not (ns / NS_PER_S == values).all() or np.signbit(values).any():
        return values.copy()
    return _small(ns, np.uint32, np.int64)
