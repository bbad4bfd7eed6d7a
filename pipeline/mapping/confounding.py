"""Confounded groups: they match a difference in the hosts' software, and may not be racks."""

from __future__ import annotations

from collections.abc import Callable

from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan, ScannedHost

_SHOWN = 4


def confounding_warnings(scan: Scan, map_: Map) -> list[str]:
    """A warning for each property that has one value in every group of the map, and differs between groups.

    Versions of iperf3 count where goodput was measured by it, kernels always.
    """
    properties: list[tuple[str, Callable[[ScannedHost], str | None]]] = [("kernel", _kernel)]
    if any("iperf3" in m.method for m in scan.measurements):
        properties.append(("version of iperf3", _iperf3))
    hosts = {host.name: host for host in scan.hosts}
    found = []
    for what, of in properties:
        values = {group.id: {of(hosts[name]) for name in group.hosts} for group in map_.groups}
        single = {id_: next(iter(v)) for id_, v in values.items() if len(v) == 1 and None not in v}
        if len(single) < len(map_.groups) or len(set(single.values())) < 2:
            continue
        parts = [f"{id_}: {value}" for id_, value in list(single.items())[:_SHOWN]]
        more = " .." if len(single) > _SHOWN else ""
        found.append(
            f"the groups coincide with the {what} of their hosts ({'; '.join(parts)}{more}): "
            "they may be software and not location"
        )
    return found


def _kernel(host: ScannedHost) -> str | None:
    return None if host.agent is None else host.agent.kernel


def _iperf3(host: ScannedHost) -> str | None:
    return None if host.audit is None else host.audit.programs.get("iperf3")
