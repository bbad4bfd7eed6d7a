"""What ``iperf3 -J`` prints, checked: only figures that can be true come out. No I/O.

The receiver's total over the whole time is the reading (``end.sum_received``): the sender's counts what still
waits in its buffers, and an interval can exceed the rate of the line. Which end sent is known by
``start.test_start.reverse``, not by the ``sender`` keys of the sums, which some versions write wrongly.

A test of both directions at once (``--bidir``, by a wrapper: it is never requested) has sums for each. Versions since
3.10 give the reverse ones names of their own; older ones write both under one name, and there ``sender`` tells them
apart: the sums that say true are those of what the client sent.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from netprobe.probe.methods.iperf3_output import Repeated, find_report

MAX_BYTES = 1 << 20
CPU_BOUND_PERCENT = 90.0
"""From here on the program, and not the network, may have set the rate."""
THREADED_SINCE = (3, 16)
"""From this version on each stream has a thread; before it one thread serves all of them."""
_MAX_RATE = 1e14
_MAX_SECONDS = 1e5
_MAX_TOTAL = 1 << 62
_ENDED_EARLY = 0.9
"""A timed test that lasted less than this share of its time, a sized one that sent less of its bytes, was cut short."""
_REVERSE = "_bidir_reverse"
_VERSION = re.compile(r"iperf (\d{1,3}(?:\.\d{1,3}){1,3})[+-]?\w{0,16}(?=\s|$)")


class ReportError(ValueError):
    """No reading can be had from it; the message is the reason."""


class RefusedOptionsError(ReportError):
    """The program does not take the options that it was given: it will not take them the next time either."""


@dataclass(frozen=True, kw_only=True)
class Iperf3Report:
    """One TCP test. The receiver's figures, unless a field says otherwise."""

    version: str
    reverse: bool
    """Whether the server sent and the client received (``-R``)."""
    streams: int
    bytes: int
    duration_s: float
    bytes_per_s: float
    retransmits: int | None
    sender_cpu_ratio: float | None
    receiver_cpu_ratio: float | None
    congestion_control: str | None
    both_ways: bool = False
    """Whether the other direction was loaded at the same time."""
    around: str | None = None
    """What was printed around the report, one line."""

    @property
    def cpu_bound(self) -> bool:
        """Whether one of the ends used about all of the processor that its threads can use."""
        threads = self.streams if version_tuple(self.version) >= THREADED_SINCE else 1
        ratios = (self.sender_cpu_ratio or 0.0, self.receiver_cpu_ratio or 0.0)
        return max(ratios) >= threads * CPU_BOUND_PERCENT / 100


def parse_version(text: str) -> str | None:
    """``3.12`` out of ``iperf 3.12 (cJSON 1.7.15)``; None when it is not that."""
    match = _VERSION.match(text)
    return match[1] if match else None


def version_tuple(version: str) -> tuple[int, ...]:
    """For comparing."""
    return tuple(map(int, version.split(".")))


def parse_report(text: str) -> Iperf3Report:
    """The reading of a client's output. Raises ReportError with the reason why there is none."""
    if len(text) > MAX_BYTES:
        raise ReportError(f"iperf3 printed {len(text)} characters, and {MAX_BYTES} are read")
    if not text.strip():
        raise ReportError("iperf3 printed nothing")
    output = find_report(text)
    document = output.report
    if document is None:
        if output.usage is not None:
            raise RefusedOptionsError(f"iperf3 does not take the options of this test: {output.usage}")
        if "{" in text:
            raise ReportError("iperf3 printed no complete report: it did not come to its end")
        raise ReportError(
            f"iperf3 printed something that is not JSON: {output.around or 'nothing that can be shown'}"
        )
    error = document.get("error")
    if error is not None:
        said = error if isinstance(error, str) else "an error"
        raise ReportError(f"iperf3: {_printable(said).removeprefix('error - ')}")
    start, end = _object(document, "start"), _object(document, "end")
    test = _object(start, "test_start")
    if test.get("protocol") != "TCP":
        raise ReportError("iperf3's report is of no TCP test")
    reverse = _number(test, "reverse", 0, 1) == 1
    streams = _whole(test, "num_streams", 1, 1 << 16)
    received, sent = _sum(end, "sum_received"), _sum(end, "sum_sent")
    seconds = _number(received, "seconds", 0, _MAX_SECONDS)
    total = _whole(received, "bytes", 0, _MAX_TOTAL)
    if seconds <= 0 or total == 0:
        raise ReportError("iperf3's receiver got no data")
    rate = total / seconds
    said_rate = _number(received, "bits_per_second", 0, _MAX_RATE) / 8
    if rate > _MAX_RATE / 8 or not math.isclose(rate, said_rate, rel_tol=0.02):
        raise ReportError("iperf3's receiver reports a rate that is not its bytes a second")
    if total > _whole(sent, "bytes", 0, _MAX_TOTAL):
        raise ReportError("iperf3's receiver reports more bytes than were sent")
    both_ways = _both_ways(start, end, streams)
    _check_length(test, received, sent, both_ways)
    version = parse_version(start["version"]) if isinstance(start.get("version"), str) else None
    if version is None:
        raise ReportError("iperf3's report has no version")
    client, server = _cpu(end, "host_total"), _cpu(end, "remote_total")
    retransmits = sent.get("retransmits")
    congestion = end.get("sender_tcp_congestion")
    return Iperf3Report(
        version=version,
        reverse=reverse,
        streams=streams,
        bytes=total,
        duration_s=seconds,
        bytes_per_s=rate,
        retransmits=None if retransmits is None else _whole(sent, "retransmits", 0, _MAX_TOTAL),
        sender_cpu_ratio=server if reverse else client,
        receiver_cpu_ratio=client if reverse else server,
        congestion_control=_printable(congestion)[:32] if isinstance(congestion, str) else None,
        both_ways=both_ways,
        around=output.around,
    )


def _sum(end: dict[str, Any], key: str) -> dict[str, Any]:
    """The sum of what the client sent, where there are two under one name. Raises ReportError where neither is."""
    values = end.get(key)
    if not isinstance(values, Repeated):
        return _object(end, key)
    forward = [value for value in values if isinstance(value, dict) and value.get("sender") is True]
    if len(forward) != 1 or len(values) != 2:
        raise ReportError(
            f"iperf3's report has {len(values)} {key}, and which is of this direction is unknown"
        )
    return dict(forward[0])


def _both_ways(start: dict[str, Any], end: dict[str, Any], streams: int) -> bool:
    connected = start.get("connected")  # a connection a stream and direction
    more = isinstance(connected, list) and len(connected) >= 2 * streams
    return more or isinstance(end.get("sum_received"), Repeated) or "sum_received" + _REVERSE in end


def _check_length(
    test: dict[str, Any], received: dict[str, Any], sent: dict[str, Any], both_ways: bool
) -> None:
    """Raise ReportError for a test that ended before it had sent for its time, or its bytes.

    A sized test of both directions ends when either has its bytes.
    """
    wanted = [test.get(key) for key in ("bytes", "blocks", "duration")]
    count, blocks, duration = (
        value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0
        for value in wanted
    )
    if count:
        short = not both_ways and _whole(sent, "bytes", 0, _MAX_TOTAL) < _ENDED_EARLY * count
    else:
        least = min(_number(each, "seconds", 0, _MAX_SECONDS) for each in (received, sent))
        short = not blocks and least < _ENDED_EARLY * duration
    if short:
        raise ReportError("iperf3's test ended early: its report is of a part of it")


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if isinstance(value, Repeated):
        raise ReportError(f"iperf3's report has {key} {len(value)} times")
    if not isinstance(value, dict):
        raise ReportError(f"iperf3's report has no {key}: it did not come to its end")
    return value


def _number(parent: dict[str, Any], key: str, low: float, high: float) -> float:
    value = parent.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ReportError(f"iperf3's report has an impossible {key}")
    return float(value)


def _whole(parent: dict[str, Any], key: str, low: int, high: int) -> int:
    value = parent.get(key)
    if type(value) is not int or not low <= value <= high:
        raise ReportError(f"iperf3's report has an impossible {key}")
    return value


def _cpu(end: dict[str, Any], key: str) -> float | None:
    """A share of one core; None where the report has none, or one that cannot be."""
    use = end.get("cpu_utilization_percent")
    value = use.get(key) if isinstance(use, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e5:
        return None
    return float(value) / 100


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:200])
