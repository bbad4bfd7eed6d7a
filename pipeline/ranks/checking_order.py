"""A plan compared with what its ranks report of where they run: which are displaced, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import Host, read_hosts_file_text
from netprobe.core.rank_hosts import Ambiguous, Displaced, HostFinder, Place, host_of
from netprobe.core.text import listed
from netprobe.formats import format_named, slots_of
from netprobe.formats.hostfiles.ranks import MAX_RANKS, places_of
from netprobe.formats.rank_output.rank_lines import RankLine, RankLog
from netprobe.formats.rank_output.rank_program import RANK_LAUNCHERS
from netprobe.pipeline.exporting import named_hosts, no_rank_order

_EITHER = 4


@dataclass(frozen=True, kw_only=True)
class PlannedRanks:
    """``hosts``: those of the order, rank 0's first. ``places``: host (its place there) and local rank of each rank.
    ``others``: the plan's hosts that have no rank."""

    hosts: tuple[Host, ...]
    places: tuple[tuple[int, int], ...]
    others: tuple[Host, ...] = ()
    by_node: bool = False


@dataclass(frozen=True, kw_only=True)
class OrderCheck:
    """Whether the order was kept. Ranks are numbers; hosts are the plan's names.

    ``size`` is the number of planned ranks, ``confirmed`` how many of them run where they should. ``missing`` said
    nothing (the job's ranks beyond the plan's, too), ``surplus`` are not planned (rank, host), ``contradictory``
    were heard of from several hosts, ``local`` are on the right host in another place there (rank, planned, actual).
    ``cause`` is the order of the ranks, where it is a known one; ``notes`` what else was seen, a line
    each. ``job_sizes`` are the numbers of ranks that the job had by what its ranks said, ``ambiguous`` the ranks
    whose host is not clear.
    """

    size: int
    confirmed: int
    launchers: tuple[str, ...]
    displaced: tuple[Displaced, ...]
    missing: tuple[int, ...]
    surplus: tuple[tuple[int, str], ...]
    contradictory: tuple[int, ...]
    local: tuple[tuple[int, int, int], ...]
    cause: str | None
    notes: tuple[str, ...]
    job_sizes: tuple[int, ...] = ()
    ambiguous: tuple[Ambiguous, ...] = ()

    @property
    def good(self) -> bool:
        """Whether every planned rank runs where it should, and the job had no other."""
        whole = self.confirmed == self.size and self.job_sizes in ((), (self.size,))
        return whole and not (self.surplus or self.contradictory)


def planned_ranks(
    plan: Plan, *, hosts: Sequence[Host] | None = None, slots: int | None = None, by_node: bool = False
) -> PlannedRanks:
    """Where a plan puts each rank. ``hosts`` and ``slots`` are those that were exported with it.

    A schedule carries the order it was built for.
    Raises InputError for a plan without an order, of other hosts, or for slots out of range.
    """
    if not isinstance(plan, (OrderPlan, SchedulePlan)):
        raise InputError(no_rank_order(plan))
    by_name = named_hosts(plan.hosts, hosts, source="plan")
    ranked = tuple(by_name[name] for name in plan.order)
    return PlannedRanks(
        hosts=ranked,
        places=tuple(places_of(slots_of(ranked, slots), by_node=by_node)),
        others=tuple(by_name[name] for name in plan.left_out),
        by_node=by_node,
    )


def exported_fault(
    planned: PlannedRanks, format_name: str, path: Path, export: str | None = None
) -> str | None:
    """Why a launcher's file is not the plan's order; None where it is, or where its format is never read back.

    ``export`` is the command that writes the file.
    """
    by_node = " --by-node" if planned.by_node else ""
    export = export or f"netprobe export hostfile PLAN --format {format_name}{by_node}"
    entry = format_named(format_name)
    read = entry.read
    if not path.exists():
        return f"{path}: not there yet: {export} writes it"
    again = f"{export} --force"
    if read is None:
        return None
    counts = [0] * len(planned.hosts)
    for at, _ in planned.places:
        counts[at] += 1
    try:
        text = read_hosts_file_text(path)
        if planned.by_node and entry.write_by_node is not None:
            ranked = [host.model_copy(update={"slots": count}) for host, count in zip(planned.hosts, counts)]
            same = entry.write_by_node(ranked) == text
            return None if same else f"{path}: not with the ranks of this plan by node: {again} writes it so"
        hosts = read(text, source=str(path))
    except HostsError as error:
        return f"{error}: no {format_name} file that can be read: {again} writes one"
    there = [(host.name, host.slots or 1) for host in hosts]
    ours = [(host.launcher_name, count) for host, count in zip(planned.hosts, counts)]
    names = [(host.name, count) for host, count in zip(planned.hosts, counts)]  # what a rank map has
    if there in (ours, names):
        return None
    what = "slots" if [n for n, _ in there] in ([n for n, _ in ours], [n for n, _ in names]) else "order"
    return (
        f"{path}: not with the {what} of this plan: {again} writes it so (or give the --slots and --hosts that it was "
        "exported with)"
    )


def check_order(planned: PlannedRanks, log: RankLog) -> OrderCheck:
    """Compare what the ranks said with the plan."""
    everyone = (*planned.hosts, *planned.others)
    finder = HostFinder(everyone)
    notes: list[str] = []
    where: dict[int, Place] = {}
    said: dict[int, RankLine] = {}
    contradictory: set[int] = set()
    repeated = 0
    other_names: dict[str, str] = {}
    for line in log.lines:
        if line.rank is None:
            continue
        place = host_of(line.names, line.addresses, finder, everyone, other_names)
        if line.rank not in said:
            said[line.rank], where[line.rank] = line, place
        elif where[line.rank] == place:
            repeated += 1
        else:
            contradictory.add(line.rank)
    size = len(planned.places)
    displaced: list[Displaced] = []
    local: list[tuple[int, int, int]] = []
    surplus: list[tuple[int, str]] = []
    ambiguous: list[Ambiguous] = []
    confirmed = 0
    for rank in sorted(said):
        at, name, candidates = where[rank]
        if rank >= size:
            surplus.append((rank, name))
            continue
        should, local_rank = planned.places[rank]
        if candidates:
            names = tuple(everyone[one].name for one in candidates)
            ambiguous.append(Ambiguous(rank=rank, planned=everyone[should].name, said=name, hosts=names))
        elif at != should:
            displaced.append(
                Displaced(rank=rank, planned=everyone[should].name, actual=name, in_plan=at is not None)
            )
        else:
            confirmed += rank not in contradictory
            actual = said[rank].local_rank
            if actual is not None and actual != local_rank:
                local.append((rank, local_rank, actual))
    sizes = tuple(
        sorted({line.size for line in log.lines if line.rank is not None and line.size is not None})
    )
    notes += _notes(log, size, sizes, repeated, other_names)
    # A size is what a line says: no more ranks are missing than a job can have.
    expected = max(size, min(sizes[-1], MAX_RANKS) if sizes else 0)
    return OrderCheck(
        size=size,
        confirmed=confirmed,
        launchers=tuple(sorted({line.launcher for line in log.lines})),
        displaced=tuple(displaced),
        missing=tuple(rank for rank in range(expected) if rank not in said),
        surplus=tuple(surplus),
        contradictory=tuple(sorted(contradictory)),
        local=tuple(local),
        cause=_cause(planned, where) if displaced and not contradictory else None,
        notes=tuple(notes),
        job_sizes=sizes,
        ambiguous=tuple(ambiguous),
    )


def _notes(
    log: RankLog, size: int, sizes: tuple[int, ...], repeated: int, other_names: dict[str, str]
) -> list[str]:
    notes = []
    bare = sum(line.rank is None for line in log.lines)
    if bare:
        launcher = log.lines[0].launcher
        notes.append(
            f"{bare} {'line has' if bare == 1 else 'lines have'} no rank: what started the program was not "
            f"{launcher}, whose variables were not set"
        )
    if log.torn:
        shown = ", ".join(map(str, log.torn[:4])) + (" .." if len(log.torn) > 4 else "")
        notes.append(f"{len(log.torn)} torn or strange: line {shown}")
    if repeated:
        notes.append(f"{repeated} said again, the same: the output of two runs, or one given twice")
    if sizes not in ((), (size,)):
        notes.append(
            f"the job had {' and '.join(map(str, sizes[:3]))} ranks, and the plan has {size}: give "
            "the --slots and --hosts that were exported with it"
        )
    for name, shown in list(other_names.items())[:3]:
        notes.append(
            f"{name} was recognized by its address; it calls itself {shown}, which is another host's name"
        )
    return notes


def _cause(planned: PlannedRanks, where: dict[int, Place]) -> str | None:
    """The known order, other than the plan's, that the ranks are in; None if they are in none."""
    size = len(planned.places)
    if sorted(where) != list(range(size)):
        return None
    actual = [where[rank].at for rank in range(size)]
    hosts = planned.hosts
    counts = [0] * len(hosts)
    for at, _ in planned.places:
        counts[at] += 1

    def arranged(order: Sequence[int], by_node: bool) -> list[int]:
        return [order[at] for at, _ in places_of([counts[at] for at in order], by_node=by_node)]

    plain = list(range(len(hosts)))
    by_name = sorted(plain, key=lambda at: hosts[at].launcher_name)
    for order, by_node, text in (
        (
            plain,
            True,
            "the hosts are in the plan's order, and the ranks are assigned to them round-robin (by node)",
        ),
        (
            plain,
            False,
            "the hosts are in the plan's order, and each has its ranks one after another (by slot)",
        ),
        (by_name, False, "the hosts are sorted by name"),
        (by_name, True, "the hosts are sorted by name, and the ranks assigned round-robin (by node)"),
    ):
        if actual == arranged(order, by_node):
            return text
    for first in plain[1:]:
        if actual[0] == first and actual == arranged(
            [first, *(at for at in plain if at != first)], planned.by_node
        ):
            return f"{hosts[first].name} was moved to the front; is it the launching host?"
    if sorted(at for at in actual if at is not None) == sorted(at for at, _ in planned.places):
        return "the same hosts have as many ranks as planned, in another order"
    return None


def lines_of(found: OrderCheck) -> list[str]:
    """What is wrong, one line per rank; missing ranks that are neighbours share one."""
    lines = []
    for entry in found.displaced:
        elsewhere = "" if entry.in_plan else ", which is not in the plan"
        lines.append(f"rank {entry.rank}: planned {entry.planned}, runs on {entry.actual}{elsewhere}")
    lines += [
        f"rank {one.rank}: planned {one.planned}, runs on {one.said}, which is ambiguous: {_either(one.hosts)}"
        for one in found.ambiguous
    ]
    lines += [f"rank {rank}: heard of from several hosts" for rank in found.contradictory]
    for of, ranks in (
        ("", [rank for rank in found.missing if rank < found.size]),
        ("not planned, ", [rank for rank in found.missing if rank >= found.size]),
    ):
        for first, last in _runs(ranks):
            which = f"rank {first}" if first == last else f"ranks {first} to {last}"
            lines.append(f"{which}: {of}said nothing")
    lines += [f"rank {rank}: not planned, runs on {host}" for rank, host in found.surplus]
    lines += [
        f"rank {rank}: on its host, there with local rank {actual} instead of {planned}"
        for rank, planned, actual in found.local
    ]
    return lines


def hint_of(found: OrderCheck, launcher: str) -> list[str]:
    """Why the ranks are where they are, and how to keep the order; empty where it was kept."""
    lines = []
    if found.ambiguous:
        hosts = tuple(dict.fromkeys(name for one in found.ambiguous for name in one.hosts))
        lines.append(
            f"ambiguous: what these ranks call their host matches several of the plan: give {listed(hosts)} each "
            "a launcher_name= and an address= of its own in a hosts file, and this file as --hosts"
        )
    if not (found.displaced or found.surplus):
        return lines
    lines += [f"actual order: {found.cause}"] if found.cause else []
    elsewhere = found.displaced and not any(entry.in_plan for entry in found.displaced)
    if elsewhere and not found.confirmed and not found.ambiguous:
        lines.append("no rank runs on a host of the plan: is it the plan of these hosts?")
    if launcher in RANK_LAUNCHERS:
        lines.append(f"order: {format_named(RANK_LAUNCHERS[launcher].format).order}")
    return lines


def _either(names: Sequence[str]) -> str:
    """``a or b``; of many the first ones."""
    return " or ".join(names) if len(names) <= _EITHER else f"one of {listed(names)}"


def _runs(ranks: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for rank in ranks:
        if runs and runs[-1][1] + 1 == rank:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs
