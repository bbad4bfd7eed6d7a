"""How many bytes of a flow had arrived when, the rate over a window of it, and whether that is known. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.records.samples import NS_PER_S

MAX_MARKS = 5001
_MAX_BYTES = 1 << 53
_MAX_NS = 1 << 62

MIN_TIMED_S = 0.005
"""A sized flow whose bytes came within less has no rate: a busy host holds packets back for as long."""
SHORT_S = 0.05
"""Over less a rate is a tenth off and more."""
SHORT_BYTES = 1 << 16
"""Fewer bytes than this are a few dozen packets, and arrive in a handful of reads."""
MIN_READS = 4
"""Fewer moments than this show no course of arrival."""
MIN_STREAM_READS = 2

Mark = tuple[int, int]
"""A moment in ns of the receiver's monotonic clock, and the bytes that had arrived by then, read or not."""


def parse_marks(value: object, *, slack_s: float) -> list[Mark]:
    """The marks of an agent's answer: times and bytes both grow, over at most ``slack_s`` seconds.

    Raises ProtocolError.
    """
    if not isinstance(value, list) or len(value) > MAX_MARKS:
        raise ProtocolError("marks of a flow that are not a list of the right length")
    marks: list[Mark] = []
    for entry in value:
        if not isinstance(entry, list) or len(entry) != 2 or any(type(number) is not int for number in entry):
            raise ProtocolError("a mark of a flow that is not a pair of integers")
        at, total = entry
        if not (0 <= at <= _MAX_NS and 0 < total <= _MAX_BYTES):
            raise ProtocolError("a mark of a flow that cannot be")
        if marks and not (marks[-1][0] < at <= marks[0][0] + slack_s * NS_PER_S and marks[-1][1] < total):
            raise ProtocolError("marks of a flow that do not grow")
        marks.append((at, total))
    return marks


def parse_reads(value: object, streams: int) -> list[int]:
    """For each stream, how often bytes were read that came after the receiver's clock began.

    Raises ProtocolError.
    """
    if not isinstance(value, list) or len(value) != streams:
        raise ProtocolError("reads of a flow that are not one number a stream")
    if any(type(number) is not int or not 0 <= number <= _MAX_BYTES for number in value):
        raise ProtocolError("reads of a flow that cannot be")
    return list(value)


def too_few_to_time(arrived: float, seconds: float, reads: Sequence[int]) -> str | None:
    """Why there is no rate of a sized flow of which so many bytes came after the clock began; None: there is one."""
    if seconds >= MIN_TIMED_S and sum(reads) >= MIN_READS:
        return None
    came = f"{arrived:.0f} came within {1e3 * seconds:.2g} ms in {sum(reads)} reads after the first"
    if arrived <= 0:
        came = "all were there at the receiver's first read"
    return (
        f"too few bytes to time: {came}, and {1e3 * MIN_TIMED_S:.0f} ms and {MIN_READS} reads are needed: "
        "give a larger --size"
    )


def is_short(arrived: float, seconds: float, moments: int, reads: Sequence[int]) -> bool:
    """Whether a rate is doubtful for lack of bytes, time, moments of arrival, or a stream's own reads."""
    few = arrived < SHORT_BYTES or moments < MIN_READS
    return few or seconds < SHORT_S - 1e-9 or min(reads, default=0) < MIN_STREAM_READS


@dataclass(frozen=True, kw_only=True, eq=False)
class Progress:
    """Cumulative payload bytes of a flow at some moments, in seconds; both arrays grow."""

    at_s: NDArray[np.float64]
    arrived: NDArray[np.float64]

    @classmethod
    def of(cls, marks: Sequence[Mark]) -> Progress:
        """From one mark or more; the first one is at 0 s."""
        table = np.array(marks, dtype=np.int64)
        return cls(
            at_s=(table[:, 0] - table[0, 0]) / NS_PER_S,
            arrived=table[:, 1].astype(np.float64),
        )

    def shifted(self, by_s: float) -> Progress:
        """The same on another clock."""
        return Progress(at_s=self.at_s + by_s, arrived=self.arrived)

    @property
    def first_s(self) -> float:
        """When the first bytes were read."""
        return float(self.at_s[0])

    @property
    def last_s(self) -> float:
        """When the last bytes were read."""
        return float(self.at_s[-1])

    @property
    def total(self) -> int:
        """All bytes."""
        return int(self.arrived[-1])

    def between(self, begin_s: float, end_s: float) -> float:
        """Bytes that arrived between two moments.

        Linear between marks; nothing before the first mark, nothing more after the last one. The bytes of
        the first mark itself arrived at its moment.
        """
        begin, end = np.interp([begin_s, end_s], self.at_s, self.arrived, left=0.0)
        return float(end - begin)

    def moments(self, begin_s: float, end_s: float) -> int:
        """How many marks are between two moments."""
        return int(np.count_nonzero((self.at_s >= begin_s) & (self.at_s <= end_s)))
