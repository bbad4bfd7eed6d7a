"""``doctor --hosts``: what every host lacks, and what that costs, before a scan finds out."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from netprobe.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_PARTIAL
from netprobe.core.hosts import Host
from netprobe.probe.audit.examine import Findings, run_examine
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.options import ScanOptions

CLOCK_S = 2.0
"""A wall clock this far off misleads those who compare logs; no reading depends on it."""


@dataclass(frozen=True, kw_only=True)
class Lack:
    """Something that hosts lack, and what it costs."""

    what: str
    hosts: tuple[str, ...]
    costs: str


@dataclass(frozen=True, kw_only=True)
class FleetReport:
    """What was found. ``exit_code``: 0 every host can be probed, 3 some cannot, 4 none can."""

    findings: tuple[Findings, ...]
    lacks: tuple[Lack, ...]
    exit_code: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "hosts": [
                asdict(found) | {"host": found.host.name, "address": found.host.address}
                | {key: value.model_dump() if value is not None else None
                   for key, value in (("agent", found.agent), ("audit", found.audit))}
                for found in self.findings
            ],
            "missing": [asdict(lack) for lack in self.lacks],
        }  # fmt: skip


def examine_hosts(hosts: Sequence[Host], *, launcher: Launcher, options: ScanOptions) -> FleetReport:
    """Start an agent on every host, ask it, and end it. Raises InputError for what cannot work."""
    return report(run_examine(hosts, launcher, options))


def report(findings: Sequence[Findings]) -> FleetReport:
    """The report of findings; no I/O."""
    up = sum(found.status == "ok" for found in findings)
    code = EXIT_OK if up == len(findings) else EXIT_PARTIAL if up else EXIT_NOTHING_MEASURED
    return FleetReport(findings=tuple(findings), lacks=tuple(_lacks(findings)), exit_code=code)


def _lacks(findings: Sequence[Findings]) -> Iterator[Lack]:
    for status, costs in (
        ("unreachable", "no link of theirs can be measured"),
        ("failed", "no link of theirs can be measured"),
    ):
        reasons: dict[str, list[str]] = {}
        for found in findings:
            if found.status == status:
                reasons.setdefault(found.reason or "no reason known", []).append(found.host.name)
        for reason, lost in reasons.items():
            yield Lack(what=reason, hosts=tuple(lost), costs=costs)
    up = [found for found in findings if found.status == "ok"]
    for what, lacking, costs in _CHECKS:
        names = tuple(found.host.name for found in up if lacking(found))
        if names:
            yield Lack(what=what, hosts=names, costs=costs)


def own_name_is_loopback(found: Findings) -> bool:
    """Whether the host's own name leads to its loopback, and nowhere else."""
    if not found.own_addresses:
        return False
    return all(_is_loopback(address) for address in found.own_addresses)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _without(program: str) -> Callable[[Findings], bool]:
    return lambda found: found.audit is not None and found.audit.programs.get(program) is None


_CHECKS: tuple[tuple[str, Callable[[Findings], bool], str], ...] = (
    (
        "UDP from the host before it in the list does not arrive, TCP does",
        lambda found: found.udp_blocked,
        "the default method cannot measure latency: let UDP in (--port-range), or give scan --latency tcp",
    ),
    (
        "no kernel time stamps",
        lambda found: found.stamps != "kernel",
        "latencies hold the time that processes waited there, tens of microseconds and more",
    ),
    (
        "no iperf3",
        _without("iperf3"),
        "goodput cannot be measured by iperf3; netprobe's own sender is used, which needs nothing",
    ),
    ("no fping", _without("fping"), "latency cannot be measured by fping; the default needs nothing"),
    (
        "no raw sockets (CAP_NET_RAW)",
        lambda found: found.audit is not None and not found.audit.raw_icmp,
        "ICMP probes cannot be sent; the default needs none",
    ),
    (
        "their own names lead to loopback there",
        own_name_is_loopback,
        "scans are right all the same; MPI and Gloo jobs that look up their name would listen where no peer can reach: "
        "name the interface (netprobe launch --env GLOO_SOCKET_IFNAME=eth0)",
    ),
    (
        "their own names lead to no address there",
        lambda found: found.own_addresses == (),
        "scans are right all the same; MPI and Gloo jobs may look the name up and fail: name the interface "
        "(netprobe launch --env GLOO_SOCKET_IFNAME=eth0)",
    ),
    (
        f"a clock more than {CLOCK_S:g} s off the controller's",
        lambda found: found.clock_offset_s is not None and abs(found.clock_offset_s) > CLOCK_S,
        "readings are right all the same; logs of different hosts do not line up",
    ),
    (
        "no answer to the audit",
        lambda found: found.audit is None,
        "nothing can warn of readings of theirs that cannot be trusted",
    ),
)
