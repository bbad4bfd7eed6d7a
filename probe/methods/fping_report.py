"""What ``fping -D -C N ADDRESS`` prints, checked: only readings that can be true come out. No I/O.

It prints a line a reply in the order of arrival, ``[SECONDS] ADDRESS : [N], 64 bytes, 0.103 ms (...)``, or ``timed
out``, or ``duplicate for [N]``; and at its end a line with the time of each probe in the order of sending, ``-`` for
a lost one. Both must agree: output that was cut short, or mixed with other output, is not a reading.
Its own count of losses is not used: with duplicates it goes wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_BYTES = 1 << 20
MAX_PROBES = 65_535
"""fping numbers its probes in 16 bits, and begins again after them."""
_MAX_MS = 3.6e6
_TIME = r"[0-9]{1,7}(?:\.[0-9]{1,6})?(?:e[+-][0-9]{2})?"
_VERSION = re.compile(r"fping: Version ([0-9]{1,3}(?:\.[0-9]{1,3}){1,3}[\w.-]{0,16})(?=\s|$)")
_LINE = re.compile(
    rf"\[(?P<at>[0-9]{{1,12}}\.[0-9]{{1,9}})\] (?P<address>\S{{1,64}}) +: "
    rf"(?:(?P<twice>duplicate for )?\[(?P<seq>[0-9]{{1,5}})\], "
    rf"(?:(?P<bytes>[0-9]{{1,5}}) bytes, (?P<ms>{_TIME}) ms|(?P<lost>timed out))(?: \([^()]{{0,60}}\))?"
    rf"(?: \[<- \S{{1,64}}\])?)"
)
_SUMMARY = re.compile(rf"(?P<address>\S{{1,64}}) +:(?P<times>(?: (?:{_TIME}|-))+)")


class FpingError(ValueError):
    """No reading can be had from it; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Echo:
    """A reply. Probes are numbered from 0; ``at_s`` is the time of day of its arrival."""

    seq: int
    at_s: float
    rtt_s: float


@dataclass(frozen=True, kw_only=True)
class FpingReport:
    """One run against one address."""

    count: int
    echoes: tuple[Echo, ...]
    """One for each probe that was answered, in the order of arrival."""
    duplicates: int
    complaint: str | None
    """The first line that reported something else (an ICMP error, say)."""


def parse_version(text: str) -> str | None:
    """``5.1`` out of ``fping: Version 5.1``; None when it is not that."""
    match = _VERSION.match(text)
    return match[1] if match else None


def parse_report(text: str, *, address: str, count: int) -> FpingReport:
    """The replies to ``count`` probes of ``address``. Raises FpingError with the reason why there is no report."""
    if not 1 <= count <= MAX_PROBES:
        raise FpingError(f"{count} probes: fping can number 1 to {MAX_PROBES}")
    if len(text) > MAX_BYTES:
        raise FpingError(f"fping printed {len(text)} characters, and {MAX_BYTES} are read")
    echoes: dict[int, Echo] = {}
    lost: set[int] = set()
    duplicates = 0
    complaint: str | None = None
    summary: list[str] | None = None
    for line in text.split("\n"):
        if not line.strip():
            continue
        if match := _LINE.fullmatch(line):
            seq = _checked(match, address, count)
            if match["twice"]:
                duplicates += 1
            elif match["lost"]:
                lost.add(seq)
            elif seq in echoes:
                duplicates += 1
            else:
                echoes[seq] = Echo(seq=seq, at_s=float(match["at"]), rtt_s=_seconds(match["ms"]))
        elif match := _SUMMARY.fullmatch(line):
            if summary is not None or match["address"] != address:
                raise FpingError("fping printed the end of another run")
            summary = match["times"].split()
        elif complaint is None:
            complaint = _printable(line)
    if summary is None:
        raise FpingError(complaint or "fping did not come to its end")
    _check_summary(summary, echoes, lost, count)
    return FpingReport(count=count, echoes=tuple(echoes.values()), duplicates=duplicates, complaint=complaint)


def _checked(match: re.Match[str], address: str, count: int) -> int:
    if match["address"] != address:
        raise FpingError(
            f"fping printed a line of {_printable(match['address'])}, and {address} was requested"
        )
    seq = int(match["seq"])
    if seq >= count:
        raise FpingError(f"fping printed a reply to probe {seq} of {count}")
    return seq


def _check_summary(summary: list[str], echoes: dict[int, Echo], lost: set[int], count: int) -> None:
    """The last line agrees with those before it."""
    if len(summary) != count:
        raise FpingError(f"fping lists {len(summary)} probes at its end, and {count} were requested")
    for seq, time in enumerate(summary):
        echo = echoes.get(seq)
        if time == "-":
            if echo is not None:
                raise FpingError(f"fping calls probe {seq} lost and answered")
        elif echo is None:
            raise FpingError(f"fping has no line of probe {seq}, which it calls answered")
        elif abs(_seconds(time) - echo.rtt_s) > 1e-6 + 0.01 * echo.rtt_s:
            raise FpingError(f"fping tells two times of probe {seq}")
    if lost & {seq for seq, time in enumerate(summary) if time != "-"} - set(echoes):
        raise FpingError("fping calls a probe lost and answered")


def _seconds(text: str) -> float:
    milliseconds = float(text)
    if not 0 <= milliseconds <= _MAX_MS:
        raise FpingError(f"fping tells of a round trip of {_printable(text)} ms")
    return milliseconds / 1e3


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:200])
