"""Which rank is on each host of a pattern. A pattern speaks of hosts, so that ranks may be in any order."""

from __future__ import annotations

from collections.abc import Sequence

from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.core.errors import WrongWorldError
from netprobe.core.text import listed
from netprobe.runtime.world import MOST_SHOWN, Report, places


def ranks_of_hosts(plan: DsSyncPlan, reports: Sequence[Report]) -> list[int]:
    """The rank on each host, hosts in the order of the plan's racks. ``reports``: one of each rank.

    Raises WrongWorldError unless every host in a rack has exactly one rank and no rank is elsewhere.
    """
    names = [name for rack in plan.racks for name in rack]
    rank_of: dict[str, int] = {}
    faults: dict[int, str] = {}
    for rank, (at, found) in enumerate(places(plan.hosts, reports)):
        if at is None:
            faults[rank] = f"rank {rank} is on {found!r}, which is not in the plan"
        elif found not in names:
            faults[rank] = f"rank {rank} is on {found!r}, which the plan leaves out"
        elif found in rank_of:
            faults[rank] = (
                f"rank {rank} is on {found!r}, which has rank {rank_of[found]} already (a pattern has one rank a host)"
            )
        else:
            rank_of[found] = rank
    missing = [name for name in names if name not in rank_of]
    if faults or missing:
        parts = list(faults.values())[:MOST_SHOWN]
        if len(faults) > MOST_SHOWN:
            parts.append(f"and {len(faults) - MOST_SHOWN} more ranks")
        if missing:
            parts.append(f"no rank is on {listed(missing)}")
        raise WrongWorldError(
            f"the job does not run where the plan says: {'; '.join(parts)}. Start one rank on each planned host, "
            "or plan again for the hosts there are",
            ranks=list(faults),
            missing=missing,
        )
    return [rank_of[name] for name in names]
