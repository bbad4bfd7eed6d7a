"""plan -> a launcher's own file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.document import check_same_hosts
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.plan import OrderPlan, Plan
from netprobe.formats import format_named, slots_of, writer_named


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The file's text, and the command under which the launcher keeps the order (None: none is known)."""

    text: str
    command: str | None


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
    command = None
    argv = format_named(format_name).command
    if argv is not None:
        command = shlex.join(argv(str(path), sum(slots_of(ranked, slots)), ["PROGRAM"]))
    return Exported(text=text, command=command)
