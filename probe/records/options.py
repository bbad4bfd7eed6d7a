"""The options of a scan, checked once."""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
from dataclasses import asdict, dataclass
from typing import Any, Literal

from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.probe.agent.messages import MAX_PROBES, MIN_INTERVAL_NS
from netprobe.probe.agent.stamp.readings import LEAST_READINGS

MAX_SETUP = 16_384
StampLevel = Literal["kernel", "kernel_rx", "user"]
Latency = Literal["auto", "stamp", "icmp", "fping", "tcp"]
LATENCIES: tuple[Latency, ...] = ("auto", "stamp", "icmp", "fping", "tcp")
MAX_SOURCE_PORTS = 64
MOST_PROBES = {"stamp": MAX_PROBES, "icmp": 10_000, "fping": 5_000, "tcp": MAX_PROBES}
"""ICMP numbers its probes in 16 bits, and an agent keeps them all; what fping prints of more fits no answer."""
_INTERFACE = re.compile(r"[^\s/]{1,15}")


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """Options of one scan. Raises InputError that lists every fault at once."""

    probes_per_visit: int = 100
    """Probes of one visit, the warm-up and the flush left out."""
    interval_s: float = 0.001
    """Mean time between probes; each spacing is uniform in half to one and a half of it (RFC 2330)."""
    precision_s: float = 2e-6
    """A visit by ``stamp`` with stamps of the kernel ends once its p10 is known to this; 0: it has all its probes."""
    timeout_s: float = 1.0
    """A probe not answered this long after it was sent is lost."""
    port_range: tuple[int, int] = (0, 0)
    """Ports that agents may open, UDP and TCP, both ends included; (0, 0) is any free port."""
    lease_s: float = 10.0
    """An agent that hears nothing from its controller for this long ends itself."""
    start_timeout_s: float = 30.0
    """An agent not up this long after its launch began makes its host unreachable."""
    python: str | None = None
    """Command that runs Python 3.8 or later on the hosts; None is the launcher's own (``python3``)."""
    setup: str | None = None
    """Shell lines that run on each host before Python (``. /etc/profile; module load python/3.11``)."""
    latency: Latency = "stamp"
    """How round-trip times are measured, the same on all links. ``auto`` is stamp, or tcp where no UDP gets through."""
    source_ports: int = 1
    """Source ports from which each link is probed, one after the other, each with ``probes_per_visit`` probes."""
    stamps: StampLevel = "kernel"
    """The best time stamps to try for."""
    family: Literal["ipv4", "ipv6"] | None = None
    """Address family to probe; None is IPv4 where every host has it, else IPv6."""
    subnet: str | None = None
    """Probe the addresses of this network (CIDR)."""
    interface: str | None = None
    """Probe the addresses of this interface."""
    links_at_once: int = 0
    """Links measured at the same time; larger rounds are split. 0: no cap."""
    goodput_at_once: int = 0
    """The same for tests of goodput alone, where that is less."""
    retries: int = 1
    """How often a link without a reading is tried again, in later rounds."""
    audit: bool = True
    """Whether hosts say at both ends of the scan what may make their readings wrong."""
    seed: int = 0
    """Recorded in the document."""

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise InputError("scan options: " + "; ".join(faults))

    def _faults(self) -> Any:
        low, high = self.port_range
        most = MOST_PROBES.get(self.latency, MAX_PROBES)
        if not 1 <= self.probes_per_visit <= most:
            of = "" if self.latency in ("auto", "stamp") else f" with --latency {self.latency}"
            yield f"{self.probes_per_visit} probes per visit: 1 to {most} are allowed{of}"
        if not _within(self.interval_s, MIN_INTERVAL_NS / 1e9, 60):
            yield f"an interval of {self.interval_s} s: 0.00005 to 60 s are allowed"
        if not _within(self.precision_s, 0, 60):
            yield f"a precision of {self.precision_s} s: 0 (all probes) to 60 s are allowed"
        if not _within(self.timeout_s, 0.001, 60):
            yield f"a time-out of {self.timeout_s} s: 0.001 to 60 s are allowed"
        if (low, high) != (0, 0) and not 1 <= low <= high <= 65535:
            yield f"port range {low}-{high}: two ports of 1 to 65535, the lower one first, are needed"
        if not _within(self.lease_s, 1, 3600):
            yield f"a lease of {self.lease_s} s: 1 to 3600 s are allowed"
        if not _within(self.start_timeout_s, 0.1, 3600):
            yield f"a start time-out of {self.start_timeout_s} s: 0.1 to 3600 s are allowed"
        if self.python is not None and not _is_command(self.python):
            yield f"--python {self.python!r} is not a command"
        if self.setup is not None and not (self.setup.strip() and _is_text(self.setup)):
            yield f"set-up lines of {len(self.setup)} characters: 1 to {MAX_SETUP} printable ones are needed"
        if self.latency not in LATENCIES:
            yield f"latency {self.latency!r} is not one of {', '.join(LATENCIES)}{meant(self.latency, LATENCIES)}"
        if not 1 <= self.source_ports <= MAX_SOURCE_PORTS:
            yield f"{self.source_ports} source ports: 1 to {MAX_SOURCE_PORTS} are allowed"
        elif self.source_ports > 1 and self.latency in ("icmp", "fping"):
            yield f"{self.source_ports} source ports: {self.latency} has none; use --latency stamp or tcp"
        if self.latency == "fping" and self.interval_s < 0.001:
            yield f"an interval of {self.interval_s} s: fping needs 0.001 s or more"
        if self.stamps not in ("kernel", "kernel_rx", "user"):
            yield f"stamps {self.stamps!r}: kernel, kernel_rx or user is needed"
        if self.family not in (None, "ipv4", "ipv6"):
            yield f"family {self.family!r}: ipv4 or ipv6 is needed"
        if not 0 <= self.links_at_once <= 1 << 20:
            yield f"{self.links_at_once} links at once: 0 (no cap) to {1 << 20} are allowed"
        if not 0 <= self.goodput_at_once <= 1 << 20:
            yield f"{self.goodput_at_once} tests at once: 0 (no cap) to {1 << 20} are allowed"
        if not 0 <= self.retries <= 10:
            yield f"{self.retries} retries: 0 to 10 are allowed"
        if self.seed < 0:
            yield f"seed {self.seed} is negative"
        if self.interface is not None and not _INTERFACE.fullmatch(self.interface):
            yield f"interface {self.interface[:60]!r}: a name of 1 to 15 characters is needed, such as eth1"
        if self.subnet is not None:
            try:
                ipaddress.ip_network(self.subnet, strict=False)
            except ValueError:
                yield f"subnet {self.subnet!r} is not a network such as 10.1.0.0/16"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the journal and the document; holds no secret."""
        return asdict(self) | {"port_range": list(self.port_range)}

    @property
    def may_end_early(self) -> bool:
        """Whether a visit may have fewer than ``probes_per_visit``."""
        possible = self.latency in ("auto", "stamp") and self.stamps == "kernel" and self.precision_s > 0
        return possible and self.probes_per_visit > LEAST_READINGS

    @property
    def silence_s(self) -> float:
        """An agent that answers no ping for this long counts as hung."""
        return max(1.0, self.lease_s / 2)

    @property
    def visit_deadline_s(self) -> float:
        """The longest a visit of a healthy agent can take, with room for a loaded machine."""
        return 1.5 * self.interval_s * (self.probes_per_visit + 4) + 3 * self.timeout_s + self.silence_s


def _is_command(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


def _is_text(lines: str) -> bool:
    return len(lines) <= MAX_SETUP and all(c.isprintable() or c in "\n\t" for c in lines)


def _within(value: float, low: float, high: float) -> bool:
    return math.isfinite(value) and low <= value <= high
