"""The methods by which round-trip times can be measured, by the names that ``--latency`` has for them."""

from __future__ import annotations

from collections.abc import Callable

from netprobe.probe.methods.base import Method
from netprobe.probe.methods.fping import Fping
from netprobe.probe.methods.icmp import Icmp
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.methods.tcp_connect import TcpConnect
from netprobe.probe.records.options import ScanOptions


def latency_method(options: ScanOptions) -> Method:
    """The one method of the scan's primary measurement. Raises PlatformError for what this machine lacks.

    Of ``auto`` that is stamp, until ``probe.methods.blocked`` finds that no UDP gets through.
    """
    methods: dict[str, Callable[[ScanOptions], Method]] = {
        "auto": Stamp,
        "stamp": Stamp,
        "icmp": Icmp,
        "fping": Fping,
        "tcp": TcpConnect,
    }
    return methods[options.latency](options)
