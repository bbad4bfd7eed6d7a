"""plan -> a launcher's own file, map -> a scheduler's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.text import listed, one_line
from netprobe.formats import (
    FORMATS,
    format_named,
    schedule_format_named,
    slots_of,
    topology_format_named,
    writer_named,
)
from netprobe.pipeline.mapping.nesting import nested_switches

_MARK = 14
"""Characters by which exports of a format begin alike, whatever they say."""
FORMAT_OF_VIA = {"slurm": "slurm-hostfile"}
"""The format in which those who reach their hosts this way start their ranks too, where that is not Open MPI's."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The file's text, and the command under which the launcher keeps the order (None: none is known).

    ``order`` is what keeps the order, and what happens otherwise; ``warnings`` what the file does not say, a line each;
    ``path`` is where the file goes.
    """

    text: str
    command: str | None
    order: str = ""
    warnings: tuple[str, ...] = ()
    path: Path = Path("hostfile")

    @property
    def hint(self) -> str:
        """What is worth saying with the command; empty for Open MPI's, whose command says it all."""
        return "" if self.path.name == FORMATS["openmpi"].file else self.order


def export_hostfile(
    plan: Plan,
    *,
    format_name: str = "openmpi",
    slots: int | None = None,
    hosts: Sequence[Host] | None = None,
    path: Path = Path("hostfile"),
    by_node: bool = False,
    require_all: bool = False,
) -> Exported:
    """The plan's hosts in rank order.

    ``hosts`` (default: the plan's own) gives slots and launcher names; it must hold the same hosts. ``by_node``
    distributes the ranks to hosts with several slots in turn. ``require_all`` refuses a plan in which a host has no
    rank. Raises InputError for a plan of another kind, an unknown format, or what the format cannot express.
    """
    if not isinstance(plan, (OrderPlan, SchedulePlan)):
        raise InputError(no_rank_order(plan))
    by_name = named_hosts(plan.hosts, hosts, source="plan")
    ranked = [by_name[name] for name in plan.order]
    warnings = _left_out(plan.left_out, "has no rank", refuse=require_all)
    write, entry = writer_named(format_name), format_named(format_name)
    if by_node:
        if entry.write_by_node is None:
            able = ", ".join(sorted(name for name, other in FORMATS.items() if other.write_by_node))
            raise InputError(
                f"format {format_name!r} keeps a host's ranks together: --by-node goes with {able}"
            )
        write = entry.write_by_node
    text = write(ranked, slots=slots)
    if format_name == "plain" and max(host.slots or 1 for host in ranked) > 1:
        warnings += ("a plain list says nothing of slots, and hosts have several",)
    command = None
    if entry.command is not None:
        names = [host.launcher_name for host in ranked]
        flags = entry.naming_flags(names) if entry.naming_flags is not None else ()
        command = shlex.join(entry.command(str(path), sum(slots_of(ranked, slots)), [*flags, "PROGRAM"]))
    return Exported(text=text, command=command, order=entry.order, warnings=warnings, path=path)


def no_rank_order(plan: Plan) -> str:
    """Why a plan gives no hostfile, and what to do with it instead."""
    use = "netprobe plan order MAP makes a plan that has one"
    if plan.kind == "ds_sync":
        use = (
            "its training takes one rank on each of its hosts, in any order: start it by a plan of kind order of the "
            "same map (netprobe plan order MAP), and give this document to DSSync of netprobe.runtime"
        )
    return f"a plan of kind {plan.kind!r} has no order of ranks: {use}"


def is_export(text: str, head: str) -> bool:
    """Whether ``head``, the beginning of a file, is that of an export in the form of ``text``.

    By how it begins; a list that begins with a host's name, by the hosts it lists.
    """
    if text.startswith("<algo "):
        return head.startswith("<algo ") and 'maxBytes="1099511627776"' in head.partition("\n")[0]
    if text[:1] in "#<[{":
        return head[:_MARK] == text[:_MARK]
    return _first_words(head) <= _first_words(text)


def _first_words(text: str) -> set[str]:
    """Of its whole lines."""
    return {line.split()[0] for line in text[: text.rfind("\n") + 1].splitlines() if line.strip()}


def usual_format(
    hosts: Sequence[Host], *, via: str | None = None, slots: int | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The format of an order for which nobody named one, and what could not be written, a line each.

    That of the launcher under which the hosts were reached, Open MPI's otherwise; where it cannot have the hosts'
    names a plain list, or a rank map where hosts have several ranks. None where not even these can be written.
    """
    usual = FORMAT_OF_VIA.get(via or "", "openmpi")
    one_rank = slots in (None, 1) and all((host.slots or 1) == 1 for host in hosts)
    faults: list[str] = []
    for name in (usual, "plain" if one_rank else "json"):
        try:
            writer_named(name)(hosts, slots=None if name == "plain" else slots)
        except InputError as error:
            faults.append(f"no {format_named(name).file} for {name}: {error}")
        else:
            # The first is what the user would have; that another one was tried too is nothing new.
            written = (
                f" ({format_named(name).file} is written instead; --format names others)" if faults else ""
            )
            return name, tuple(f"{fault}{written}" for fault in faults[:1])
    return None, tuple(faults[:1])


def export_schedule(plan: Plan, *, format_name: str = "json") -> Exported:
    """A schedule in another program's form, proved again before it is written.

    Raises InputError for a plan of another kind, an unknown format, or what the format cannot express.
    """
    entry = schedule_format_named(format_name)
    if not isinstance(plan, SchedulePlan):
        other = {
            "order": "netprobe export hostfile writes a rank order",
            "ds_sync": "DSSync of netprobe.runtime trains by the document itself, one rank a host in any order",
        }.get(plan.kind, "netprobe plan 2lha or plan auto makes one")
        raise InputError(f"a plan of kind {plan.kind!r} is not a schedule: {other}")
    return Exported(text=entry.write(plan), command=None, order=entry.summary, path=Path(entry.file))


def export_topology(
    document: Map,
    *,
    format_name: str = "slurm-conf",
    hosts: Sequence[Host] | None = None,
    require_all: bool = False,
) -> Exported:
    """The map's groups, and their enclosing groups where they are nested.

    ``hosts`` (default: the map's own) gives launcher names and labels; it must hold the same hosts.
    ``require_all`` refuses a map in which a host is in no group.
    Raises InputError for an unknown format, or a name the format cannot express.
    """
    entry = topology_format_named(format_name)
    by_name = named_hosts(document.hosts, hosts, source="map")
    groups = {group.id: [by_name[name] for name in group.hosts] for group in document.groups}
    warnings = _left_out(document.unplaced, "has no reading and is in no group", refuse=require_all)
    unplaced = [by_name[name] for name in document.unplaced]
    text = entry.write(groups, unplaced, above=nested_switches(document))
    if document.verdict.locality != "found":
        warnings += (f"the map found no locality to rely on: {one_line(document.verdict.text)}",)
    return Exported(text=text, command=None, order=entry.places, warnings=warnings)


def named_hosts(own: Sequence[Host], given: Sequence[Host] | None, *, source: str) -> dict[str, Host]:
    """Hosts by name: a document's ``own``, or those ``given`` instead for their slots and launcher names.

    An address or a label that was not given again is the document's. Raises DocumentError for other hosts.
    """
    known = {host.name: host for host in own}
    if given is None:
        return known
    check_same_hosts(list(given), list(own), what="the hosts file", source=source)
    return {
        host.name: host.model_copy(
            update={
                "address": host.address or known[host.name].address,
                "labels": known[host.name].labels | host.labels,
            }
        )
        for host in given
    }


def _left_out(names: Sequence[str], what: str, *, refuse: bool) -> tuple[str, ...]:
    if not names:
        return ()
    if refuse:
        raise InputError(
            f"not all hosts are there, and --require-all asks for all: it {what}: {listed(names)}"
        )
    return (f"not in the file, since it {what}: {listed(names)}",)
