"""Which host of a plan each rank is on. A pattern speaks of hosts, so that ranks may be in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.core.errors import InputError, NetprobeError
from netprobe.core.hosts import Host
from netprobe.core.text import listed


@dataclass(frozen=True, kw_only=True)
class Displaced:
    """A rank that the plan has no place for: the host it says it is on, and why."""

    rank: int
    host: str
    reason: str


class WorldError(InputError):
    """The running world is not the planned one: ``displaced`` ranks, and ``missing`` hosts that have no rank."""

    def __init__(self, displaced: Sequence[Displaced], missing: Sequence[str]) -> None:
        self.displaced = tuple(displaced)
        self.missing = tuple(missing)
        parts = [f"rank {one.rank} is on {one.host!r}, which {one.reason}" for one in self.displaced[:8]]
        if len(self.displaced) > 8:
            parts.append(f"and {len(self.displaced) - 8} more ranks")
        if self.missing:
            parts.append(f"no rank is on {listed(list(self.missing))}")
        super().__init__(
            f"the job does not run where the plan says: {'; '.join(parts)}. Start one rank on each planned host, "
            "or plan again for the hosts there are"
        )


class LostRankError(NetprobeError):
    """An average that did not come: ``waited_for`` are the hosts that we waited for, in ``iteration``."""

    def __init__(self, waited_for: Sequence[str], iteration: int, reason: str) -> None:
        self.waited_for = tuple(waited_for)
        self.iteration = iteration
        super().__init__(
            f"iteration {iteration}: waited in vain for {listed(list(self.waited_for))} ({reason}); no parameter was "
            "changed by that average. Resume all ranks from one checkpoint"
        )


def ranks_of_hosts(plan: DsSyncPlan, said: Sequence[str]) -> list[int]:
    """The rank on each host, hosts in the order of the plan's racks. ``said``: what each rank calls its host.

    Raises WorldError unless every host in a rack has exactly one rank and no rank is elsewhere.
    """
    names = [name for rack in plan.racks for name in rack]
    known = {host.name: host for host in plan.hosts}
    rank_of: dict[str, int] = {}
    displaced = []
    for rank, word in enumerate(said):
        found = _find(word, plan.hosts)
        if found is None:
            reason = "is not in the plan"
        elif found not in names:
            reason = "the plan leaves out"
        elif found in rank_of:
            reason = f"has rank {rank_of[found]} already (a pattern has one rank a host)"
        else:
            rank_of[found] = rank
            continue
        displaced.append(Displaced(rank=rank, host=word, reason=reason))
    missing = [known[name].name for name in names if name not in rank_of]
    if displaced or missing:
        raise WorldError(displaced, missing)
    return [rank_of[name] for name in names]


def _find(word: str, hosts: Sequence[Host]) -> str | None:
    """The plan's host that calls itself ``word``: launcher names first, then names, targets, addresses, short names."""
    wanted = word.lower()
    for kind in ("launcher_name", "name", "target", "address"):
        matches = [host.name for host in hosts if (getattr(host, kind) or "").lower() == wanted]
        if len(matches) == 1:
            return matches[0]
    short = [host.name for host in hosts if host.name.partition(".")[0].lower() == wanted.partition(".")[0]]
    return short[0] if len(short) == 1 else None
