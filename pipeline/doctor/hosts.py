"""``doctor --hosts``: what every host lacks, and what that costs, before a scan finds out."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from netprobe.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_PARTIAL
from netprobe.core.hosts import Host
from netprobe.core.units import count
from netprobe.probe.agent.path.mtu import MAX_SIZE
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
    up = _without_what_neighbours_explain([found for found in findings if found.status == "ok"])
    for what, lacking, costs in _CHECKS:
        names = tuple(found.host.name for found in up if lacking(found))
        if names:
            yield Lack(what=what, hosts=names, costs=costs)


def _without_what_neighbours_explain(findings: Sequence[Findings]) -> list[Findings]:
    """A host at which no UDP arrives gets no answers either: its neighbours are not to blame for its silence."""
    deaf = {
        found.host.name for found in findings if found.arrivals and not any(a.udp for a in found.arrivals)
    }
    return [
        found
        if found.host.name in deaf
        else replace(found, arrivals=tuple(one for one in found.arrivals if one.src not in deaf))
        for found in findings
    ]


def large_packets_vanish(found: Findings) -> bool:
    """Whether the path MTU from a neighbour is below that of the host's interface."""
    most = None if found.audit is None else found.audit.mtu_bytes
    return most is not None and any(
        one.mtu_bytes is not None and one.mtu_bytes < min(most, MAX_SIZE) for one in found.arrivals
    )


def passing_text(findings: Sequence[Findings]) -> str:
    """How much of what was tried between the hosts gets through; empty where nothing was."""
    tried = [one for found in findings for one in found.arrivals]
    if not tried:
        return ""
    by = {"UDP": sum(one.udp for one in tried), "TCP": sum(one.tcp for one in tried)}
    whole = sum(
        not large_packets_vanish(replace(found, arrivals=(one,)))
        for found in findings
        for one in found.arrivals
        if one.mtu_bytes is not None
    )
    words = [f"{name} passes on {passed} of them" for name, passed in by.items()]
    large = f"packets as large as the interfaces take on {whole}"
    return f"{count(len(tried), 'link')} of a ring tried: {', '.join(words)}, {large}"


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
        "UDP from a neighbour in the list does not arrive, TCP does",
        lambda found: any(one.tcp and not one.udp for one in found.arrivals),
        "latency is measured by UDP: let it in (--port-range), or give scan --latency tcp, as scan does itself where "
        "no UDP arrives at any host",
    ),
    (
        "TCP from a neighbour in the list does not arrive, UDP does",
        lambda found: any(one.udp and not one.tcp for one in found.arrivals),
        "latency can be measured; goodput, capacity and verify cannot, and most jobs cannot run: let TCP in",
    ),
    (
        "neither UDP nor TCP from a neighbour in the list arrives",
        lambda found: any(not one.udp and not one.tcp for one in found.arrivals),
        "links there cannot be measured: a firewall, or no route between the hosts",
    ),
    (
        "packets as large as its interface takes do not arrive from a neighbour in the list",
        large_packets_vanish,
        "goodput and jobs may hang where routers do not say so: lower the MTU of the hosts, or mend that of the path",
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
