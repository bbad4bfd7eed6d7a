"""What all ranks of an executor agree on before they connect: the plan, where each runs, a store of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netprobe.core.documents.plan import Plan
from netprobe.core.errors import InputError
from netprobe.runtime.collective import Collective, collective_of
from netprobe.runtime.keeper import keeper_of, keeps
from netprobe.runtime.lines import meeting
from netprobe.runtime.world import check_reports, check_world, exchange, own_report


def agreed(
    plan: Plan | Path | str, members: Sequence[int], rank: int, timeout_s: float
) -> tuple[Collective, Any, int | None]:
    """The collective of a plan, where all ranks have the same one and run where it puts them, a store, and its keeper.

    All ranks raise, or none does: InputError, WrongWorldError.
    """
    from torch.distributed import PrefixStore

    found: Collective | None = None
    fault = ""
    try:
        found = collective_of(plan)
    except InputError as error:
        fault = str(error)
    store = meeting(members, "world")
    own = own_report(plan="" if found is None else found.digest, fault=fault, keeps=keeps(store))
    reports, word = exchange(store, rank, len(members), own, timeout_s)
    check_reports(reports)
    assert found is not None
    check_world(found.hosts, reports)
    return found, PrefixStore(word, store), keeper_of([report.keeps for report in reports])
