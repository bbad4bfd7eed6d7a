"""plan -> a launcher's own file, map -> a scheduler's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.document import check_same_hosts
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.map import Map
from netprobe.core.plan import OrderPlan, Plan
from netprobe.core.text import listed, one_line
from netprobe.formats import format_named, slots_of, topology_format_named, writer_named


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The file's text, and the command under which the launcher keeps the order (None: none is known).

    ``order`` is what keeps the order, and what happens otherwise; ``warnings`` what the file does not say, a line each.
    """

    text: str
    command: str | None
    order: str = ""
    warnings: tuple[str, ...] = ()


def export_hostfile(
    plan: Plan,
    *,
    format_name: str = "openmpi",
    slots: int | None = None,
    hosts: Sequence[Host] | None = None,
    path: Path = Path("hostfile"),
) -> Exported:
    """The plan's hosts in rank order.

    ``hosts`` (default: the plan's own) gives slots and launcher names; it must hold the same hosts.
    Raises InputError for a plan of another kind, an unknown format, or a name the format cannot express.
    """
    if not isinstance(plan, OrderPlan):
        raise InputError(f"a plan of kind {plan.kind!r} has no single rank order to export")
    if hosts is not None:
        check_same_hosts(list(hosts), list(plan.hosts), what="the hosts file", source="plan")
    by_name = {host.name: host for host in (hosts if hosts is not None else plan.hosts)}
    ranked = [by_name[name] for name in plan.order]
    text = writer_named(format_name)(ranked, slots=slots)
    entry = format_named(format_name)
    command = None
    if entry.command is not None:
        command = shlex.join(entry.command(str(path), sum(slots_of(ranked, slots)), ["PROGRAM"]))
    return Exported(
        text=text, command=command, order=entry.order, warnings=_left_out(plan.left_out, "has no rank")
    )


def export_topology(
    document: Map, *, format_name: str = "slurm-conf", hosts: Sequence[Host] | None = None
) -> Exported:
    """The map's groups.

    ``hosts`` (default: the map's own) gives launcher names and labels; it must hold the same hosts.
    Raises InputError for an unknown format, or a name the format cannot express.
    """
    entry = topology_format_named(format_name)
    if hosts is not None:
        check_same_hosts(list(hosts), list(document.hosts), what="the hosts file", source="map")
    known: Sequence[Host] = document.hosts if hosts is None else hosts
    by_name = {host.name: host for host in known}
    groups = {group.id: [by_name[name] for name in group.hosts] for group in document.groups}
    text = entry.write(groups, [by_name[name] for name in document.unplaced])
    warnings = _left_out(document.unplaced, "has no reading and stands in no group")
    if document.verdict.locality != "found":
        warnings += (f"the map found no locality to rely on: {one_line(document.verdict.text)}",)
    return Exported(text=text, command=None, order=entry.places, warnings=warnings)


def _left_out(names: Sequence[str], what: str) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"not in the file, since it {what}: {listed(names)}",)
