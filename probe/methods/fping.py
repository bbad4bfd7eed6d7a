"""RTT by fping, as a program of the hosts: ICMP echoes with the privilege that fping has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from netprobe.core.documents.scan import Measurement
from netprobe.probe.agent.child import NOT_FOUND
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.methods.base import Cost, VisitContext
from netprobe.probe.methods.fping_report import (
    MAX_BYTES,
    Echo,
    FpingError,
    FpingReport,
    parse_report,
    parse_version,
)
from netprobe.probe.methods.series import rtt_measurement, series_message
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.samples import NS_PER_S, SampleColumns, Samples, sample_fields

VERSION_TIMEOUT_S = 15.0
ECHO_BYTES = 64
_START_S = 0.1
_NOT_EXECUTABLE = 126
_INSTEAD = "use --latency stamp"


class Fping:
    """One run a visit: a warm-up and ``probes_per_visit`` echoes, ``interval_s`` apart without any jitter."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._members: Sequence[Member] = ()
        self._versions: dict[str, str] = {}

    @property
    def measurement(self) -> Measurement:
        """The primary measurement, with the version of fping on each host."""
        return rtt_measurement(
            "fping", self._options, self._members, packet_bytes=ECHO_BYTES, versions=dict(self._versions)
        )

    def cost(self) -> Cost:
        """Of one visit, the warm-up included."""
        probes = self._options.probes_per_visit + 1
        return Cost(
            seconds=self._options.interval_s * probes + _START_S,
            bytes=2 * probes * ECHO_BYTES,
            packets=2 * probes,
            paced=True,
        )

    @property
    def deadline_s(self) -> float:
        """As the options have it, and the start of a program."""
        return self._options.visit_deadline_s + _START_S

    async def prepare(self, members: Sequence[Member]) -> dict[int, str]:
        """Ask for the versions; a host without fping, or whose fping may not probe, cannot take part."""
        self._members = members
        up = [member for member in members if member.up]
        reasons = await asyncio.gather(*map(self._ask, up))
        return {member.index: reason for member, reason in zip(up, reasons, strict=True) if reason}

    async def _ask(self, member: Member) -> str | None:
        assert member.connection is not None
        try:
            message = {"type": "fping_version", "address": member.address}
            answer = await member.connection.request(message, VERSION_TIMEOUT_S)
            said, tried = text_field(answer, "output") or "", text_field(answer, "tried") or ""
            code, tried_code = _code(answer, "code"), _code(answer, "tried_code")
        except TaskFailedError as error:
            return f"{str(error).split(' (ENOENT)')[0]} (install it, or {_INSTEAD})"
        except (AgentLostError, ProtocolError) as error:
            return f"its fping could not be run: {error}"
        except TimeoutError:
            return "its fping did not answer in time"
        why_not = _why_not(code, said) or (_why_not(tried_code, tried) if tried_code > 1 else None)
        if why_not is not None:
            return f"{why_not} ({_INSTEAD})"
        version = parse_version(said)
        if version is None:
            return f"its fping says {said[:60]!r} of itself ({_INSTEAD})"
        self._versions[member.outcome.host.name] = version
        return None

    async def visit(self, src: Member, dst: Member, context: VisitContext) -> list[dict[str, Any]]:  # noqa: ARG002
        """One run."""
        assert src.connection is not None
        options, count = self._options, self._options.probes_per_visit + 1
        local = {entry.address for entry in src.hello.addresses} if src.hello is not None else set()
        message = series_message(options, "fping", dst) | {
            "source": src.address,
            "count": count,
            "bound": src.address in local,
            "limit_s": self.deadline_s - options.silence_s / 2,
        }
        answer = await src.connection.request(message, self.deadline_s)
        output, code = answer.get("output"), _code(answer, "code")
        if not isinstance(output, str) or len(output) > MAX_BYTES:
            raise ProtocolError("a report of fping that is not valid")
        if code > 1:
            return [{"reason": f"{src.outcome.host.name}: {_why_not(code, output)}"}]
        try:
            report = parse_report(output, address=dst.address, count=count)
        except FpingError as error:
            return [{"reason": f"{src.outcome.host.name}: {error}"}]
        return [report_fields(report, dst.address)]

    async def finish(self, members: Sequence[Member]) -> None:
        """Nothing to do: a run ends by itself."""

    @property
    def warnings(self) -> list[str]:
        """Of hosts whose versions differ."""
        by_version: dict[str, list[str]] = {}
        for name, version in self._versions.items():
            by_version.setdefault(version, []).append(name)
        if len(by_version) < 2:
            return []
        parts = [
            f"{version} on {len(names)} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
            for version, names in sorted(by_version.items())
        ]
        return [
            f"versions of fping differ: {'; '.join(parts)}. A difference that runs along them may be theirs"
        ]


def report_fields(report: FpingReport, address: str) -> dict[str, Any]:
    """The fields of a visit. Probe 0 is the warm-up; the first reply to arrive is not a sample, whichever it is."""
    counted = [echo for echo in report.echoes if echo.seq > 0]
    kept = [echo for echo in report.echoes[1:] if echo.seq > 0]
    possible = sorted((echo for echo in kept if echo.rtt_s > 0), key=lambda echo: echo.seq)
    first_s = min((echo.at_s - echo.rtt_s for echo in report.echoes), default=0.0)
    fields: dict[str, Any] = {
        "sent": report.count - 1,
        "received": len(counted),
        "duplicates": report.duplicates,
        "rejected": len(kept) - len(possible),
        "stamps": "user" if possible else None,
        "reason": None,
        **sample_fields(Samples.of(SampleColumns.of_rows([_sample(echo, first_s) for echo in possible]))),
    }
    if not possible:
        said = f" ({report.complaint})" if report.complaint else ""
        what = "no usable answer" if counted else "no answer"
        fields["reason"] = f"{what} to ICMP echoes from {address}{said}: are they filtered? {_INSTEAD}"
    return fields


def _sample(echo: Echo, first_s: float) -> tuple[int, int, int]:
    sent_s = max(0.0, echo.at_s - echo.rtt_s - first_s)
    return echo.seq, round(sent_s * NS_PER_S), round(echo.rtt_s * NS_PER_S)


def _code(answer: dict[str, Any], key: str) -> int:
    """The exit code in an answer; one that a signal ended is 128 and the signal's number, as a shell has it."""
    value = answer.get(key)
    if type(value) is int and -64 <= value < 0:
        return 128 - value
    return whole_field(answer, key, 255)


def _why_not(code: int, said: str) -> str | None:
    """Why fping cannot probe, by its exit code and words; None where it can."""
    if code == 0:
        return None
    words = next((line.strip() for line in said.splitlines() if line.strip()), "")
    words = "".join(c if c.isprintable() else "?" for c in words[:160])
    if code in (_NOT_EXECUTABLE, NOT_FOUND) or "not permitted" in words or "must run as root" in words:
        return f"it may not run fping, exit code {code}: {words or 'no word of why'}"
    return f"fping ended with exit code {code}: {words or 'no word of why'}"
