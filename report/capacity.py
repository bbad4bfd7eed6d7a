"""Capacities in a terminal: one row per group, one row per host, and what to know of them."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from netprobe.core.documents.capacity import Capacity, Resource
from netprobe.core.units import count, rate_text

HOSTS_SHOWN = 64


def group_table(capacity: Capacity) -> Table:
    """What each group's uplink carries, and by how much its hosts can oversubscribe it; then those of outer groups."""
    found = {resource.id: resource for resource in capacity.resources}
    ratios = {one.group: one.text for one in capacity.oversubscription}
    table = _table("group", "hosts", "up", "down", "oversubscription")
    for group in capacity.groups:
        table.add_row(
            group.id,
            str(len(group.hosts)),
            _cell(found.get(f"up:{group.id}")),
            _cell(found.get(f"down:{group.id}")),
            ratios.get(group.id, ""),
        )
    known = {group.id for group in capacity.groups}
    for id_, up in found.items():
        kind, _, name = id_.partition(":")
        if kind == "up" and name not in known:
            down = found.get(f"down:{name}")
            table.add_row(name, str(len(up.shared_by)), _cell(up), _cell(down), "")
    return table


def host_table(capacity: Capacity) -> Table:
    """What each host sends and receives."""
    found = {resource.id: resource for resource in capacity.resources}
    grouped = [(name, group.id) for group in capacity.groups for name in group.hosts]
    table = _table("host", "group", "sends", "receives")
    for name, group in grouped[:HOSTS_SHOWN]:
        table.add_row(name, group, _cell(found.get(f"tx:{name}")), _cell(found.get(f"rx:{name}")))
    if len(grouped) > HOSTS_SHOWN:
        table.add_row(f".. and {len(grouped) - HOSTS_SHOWN} more", "", "", "")
    return table


def capacity_text(capacity: Capacity) -> str:
    """One line on what was measured, and the warnings."""
    flows = sum(len(test.flows) for test in capacity.tests)
    lines = [
        f"{count(len(capacity.tests), 'test')}, {count(flows, 'flow')} in {capacity.duration_s:.1f} s; payload of "
        "TCP. >: at least that, its hosts or processors were the limit; ~: this or another one named in the file"
    ]
    lines += [f"{host.name}: {host.status}: {host.reason}" for host in capacity.hosts if host.status != "ok"]
    lines += [f"{one.id}: {one.reason}" for one in capacity.resources if one.reason is not None]
    return "\n".join(lines + [f"warning: {text}" for text in capacity.warnings])


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _cell(resource: Resource | None) -> str:
    if resource is None:
        return ""
    if resource.bytes_per_s is None:
        return "-"
    mark = {"hosts": ">", "cpu": ">", "one_of": "~"}.get(resource.limited_by or "", "")
    return mark + rate_text(resource.bytes_per_s)


def capacity_parts(capacity: Capacity) -> list[RenderableType]:
    """The tables of groups and hosts, and the text; one line where there is no reading."""
    if capacity.status == "failed":
        return [f"no capacity: {capacity.reason or 'no flow gave a reading'}"]
    return [group_table(capacity), "", host_table(capacity), "", capacity_text(capacity)]
