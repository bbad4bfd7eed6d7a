"""What the latency methods share: the answer of a series, several source ports per link, and what is written down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.scan import Measurement, Stamps
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError, text_field, whole_field
from netprobe.probe.fleet.fleet import Member
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.percentile import percentiles
from netprobe.probe.records.samples import NS_PER_S, SampleColumns, Samples, seconds
from netprobe.probe.records.visits import RTT

_MAX_COUNT = 1 << 40
_MAX_NS = 1 << 62
_STAMPS = get_args(Stamps)
SPREAD_S, SPREAD_RATIO = 20e-6, 0.25
"""A link whose source ports differ by more than both causes a warning: it may have several paths of unequal length."""
_NAMED = 3


def rtt_measurement(
    method: str, options: ScanOptions, members: Sequence[Member], **parameters: Any
) -> Measurement:
    """The primary measurement, with what was probed and from where."""
    return Measurement(
        id=RTT,
        key="rtt_s",
        method=method,
        unit="s",
        statistic="p10",
        parameters={
            "probes_per_visit": options.probes_per_visit,
            "interval_s": options.interval_s,
            "timeout_s": options.timeout_s,
            **parameters,
            "source_ports": options.source_ports,
            **({} if options.source_ports == 1 else {"over_source_ports": "median"}),
            "interpolation": "linear",
            **network_parameters(options, members),
        },
    )


def network_parameters(options: ScanOptions, members: Sequence[Member]) -> dict[str, Any]:
    """What was chosen and came of it: ``family``, ``port_range``, ``subnet``, ``interface``, and ``interfaces``,
    the names of the hosts' interfaces that were probed (those that an agent knows), each with its hosts."""
    families = {"ipv6" if ":" in member.address else "ipv4" for member in members if member.address}
    interfaces: dict[str, list[str]] = {}
    for member in members:
        for entry in member.hello.addresses if member.hello is not None else ():
            if entry.address == member.address and entry.interface:
                interfaces.setdefault(entry.interface, []).append(member.outcome.host.name)
                break
    low, high = options.port_range
    return {
        "family": families.pop() if len(families) == 1 else options.family,
        "port_range": [low, high] if high else None,
        "subnet": options.subnet,
        "interface": options.interface,
        "interfaces": interfaces,
    }


def series_message(options: ScanOptions, kind: str, dst: Member) -> dict[str, Any]:
    """The parameters of every task that runs a series, without its ``source``."""
    return {
        "type": kind,
        "address": dst.address,
        "count": options.probes_per_visit,
        "interval_ns": round(options.interval_s * NS_PER_S),
        "timeout_ns": round(options.timeout_s * NS_PER_S),
        "stamps": options.stamps,
    }


def checked_answer(answer: dict[str, Any], count: int) -> dict[str, Any]:
    """The counts and samples of an agent's answer to a probe task. Raises ProtocolError."""
    columns = SampleColumns.of_rows(answer["samples"])
    (found,) = checked_answers([answer], [len(columns.seq)], columns, count)
    if isinstance(found, ProtocolError):
        raise found
    return found


def checked_answers(
    answers: Sequence[dict[str, Any]],
    sizes: Sequence[int],
    columns: SampleColumns,
    count: int,
    *,
    within_ns: int = _MAX_NS,
) -> list[dict[str, Any] | ProtocolError]:
    """The fields of each answer to a probe task of ``count`` probes and ``within_ns``, or what it breaks.

    ``columns`` are the samples of all of them, ``sizes`` how many each has. All are looked at together: the
    answers of a round of a large fleet come at once, and a look at the array of each would cost more than all else.
    """
    stops = np.cumsum(sizes, dtype=np.int64)
    broken = _broken(columns, stops, count, within_ns)
    samples = Samples.of(columns)
    found: list[dict[str, Any] | ProtocolError] = []
    start = 0
    for place, (answer, stop) in enumerate(zip(answers, stops.tolist(), strict=True)):
        try:
            fields = _checked_counts(answer, stop - start, count)
            if place in broken:
                raise ProtocolError("a sample that cannot be")
            fields["samples"], fields["start"], fields["stop"] = samples, start, stop
            found.append(fields)
        except ProtocolError as error:
            found.append(error)
        start = stop
    return found


def _broken(columns: SampleColumns, stops: NDArray[np.int64], count: int, within_ns: int) -> set[int]:
    """Places of the answers with a sample that cannot be; their probes are numbered 1 to ``count`` and grow."""
    seq = columns.seq
    good = columns.possible(within_ns) & (seq >= 1) & (seq <= count)
    follows = seq[1:] > seq[:-1]
    firsts = stops[(stops > 0) & (stops < len(seq))]
    follows[firsts - 1] = True  # those of the next answer start again
    good[1:] &= follows
    if good.all():
        return set()
    return set(np.searchsorted(stops, np.flatnonzero(~good), side="right").tolist())


def _checked_counts(answer: dict[str, Any], size: int, count: int) -> dict[str, Any]:
    """All of an answer but its ``size`` samples. Raises ProtocolError."""
    if answer.get("type") != "done":
        raise ProtocolError("an answer that is not a result")
    sent = whole_field(answer, "sent", count)
    received = whole_field(answer, "received", sent)
    stamps = answer.get("stamps") if size else None
    if size > received or (size and stamps not in _STAMPS):
        raise ProtocolError("a result that does not fit its samples")
    unsent = whole_field(answer, "unsent", count + 16)
    reason = text_field(answer, "reason")
    if unsent and reason is None:
        reason = f"{unsent} probes could not be sent: the host's queue was full (ENOBUFS)"
    return {
        "sent": sent,
        "received": received,
        "duplicates": whole_field(answer, "duplicates", _MAX_COUNT),
        "rejected": whole_field(answer, "rejected", received),
        "src_port": whole_field(answer, "source_port", 65535),
        "stamps": stamps,
        "reason": reason,
    }


def has_samples(fields: dict[str, Any]) -> bool:
    """Whether the fields of a reading have any."""
    return bool(fields.get("stop", 0) > fields.get("start", 0))


class SourcePorts:
    """Visits of a link from several source ports, one after the other, and how far their readings differ."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._links = 0
        self._unequal: list[tuple[float, str]] = []

    async def visit(
        self, src: Member, dst: Member, one: Callable[[list[int]], Awaitable[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The fields of a reading for each port. ``one`` measures from a port that is not one of those it is given.

        What fails after the first port costs the ports that are left, not the readings that are there.
        """
        readings: list[dict[str, Any]] = []
        used: list[int] = []
        for _ in range(self._count):
            try:
                fields = await one(used)
            except (AgentLostError, TaskFailedError, ProtocolError) as error:
                if not readings:
                    raise
                readings.append({"reason": f"{src.outcome.host.name}: {error}"})
                break
            readings.append(fields)
            if fields.get("src_port"):
                used.append(fields["src_port"])
        self._note(src, dst, readings)
        return readings

    def _note(self, src: Member, dst: Member, readings: Sequence[dict[str, Any]]) -> None:
        if len(readings) < 2:
            return
        p10s = [
            percentiles(seconds(fields["samples"].rtt[fields["start"] : fields["stop"]]), (10,))[0]
            for fields in readings
            if has_samples(fields)
        ]
        if len(p10s) < 2:
            return
        self._links += 1
        spread = max(p10s) - min(p10s)
        if spread > max(SPREAD_S, SPREAD_RATIO * min(p10s)):
            self._unequal.append((spread, f"{src.outcome.host.name} to {dst.outcome.host.name}"))

    @property
    def warnings(self) -> list[str]:
        """One line where links read differently from port to port."""
        if not self._unequal:
            return []
        worst = sorted(self._unequal, reverse=True)[:_NAMED]
        named = ", ".join(f"{link} by {1e6 * spread:.0f} us" for spread, link in worst)
        return [
            f"{len(self._unequal)} of {self._links} links read differently from one source port to the next, as over "
            f"several paths of unequal length: {named}"
        ]
