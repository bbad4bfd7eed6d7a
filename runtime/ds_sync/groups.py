"""Process groups of a pattern, and who is missing when an average in one of them fails."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from netprobe.core.errors import RankLostError
from netprobe.core.text import listed
from netprobe.plan.ds_sync.consensus import Groups

_NUMBERS = itertools.count()
GRACE_S = 3.0
"""How long a rank whose average failed waits for others to say that they live."""


class ProcessGroups:
    """The process groups of all averaging groups, each made once, in one order on every rank.

    ``hosts``: the name of the host of each rank. ``world``: the process group of all ranks; None: torch's own.
    """

    def __init__(self, hosts: Sequence[str], timeout_s: float, world: Any = None) -> None:
        import torch.distributed as dist

        self._dist = dist
        self.hosts = list(hosts)
        self.world = world if world is not None else dist.group.WORLD
        self.rank = dist.get_rank(self.world)
        self.timeout = timedelta(seconds=timeout_s)
        self._made: dict[tuple[int, ...], Any] = {}
        store = dist.distributed_c10d._get_default_store()
        # All ranks make their trainers in one order, so that numbers of them agree.
        self._store = dist.PrefixStore(f"netprobe ds_sync {next(_NUMBERS)}", store)

    def make(self, pattern: Sequence[Groups]) -> None:
        """Make what ``pattern`` (groups of ranks) needs and is not made yet. All ranks must call it with the same."""
        wanted = {tuple(sorted(group)) for iteration in pattern for group in iteration.groups}
        ranks = self._dist.get_process_group_ranks(self.world)
        for group in sorted(wanted - self._made.keys(), key=lambda one: (len(one), one)):
            if len(group) == len(self.hosts):
                self._made[group] = self.world
            elif len(group) > 1:
                self._made[group] = self._dist.new_group([ranks[r] for r in group], timeout=self.timeout)
            else:
                self._made[group] = None

    def start(self, buffer: Any, group: Sequence[int]) -> Any:
        """Begin to sum ``buffer`` in place over ``group`` (ranks, ascending); None where it is alone."""
        handle = self._made[tuple(group)]
        return None if handle is None else self._dist.all_reduce(buffer, group=handle, async_op=True)

    def wait(self, work: Any, group: Sequence[int], iteration: int) -> None:
        """Wait for a sum. Raises RankLostError that names whom we waited for."""
        try:
            if not work.wait(self.timeout):
                raise RuntimeError("the time is over")
        except RuntimeError as error:
            raise self.lost(group, iteration, str(error)) from error

    def lost(self, group: Sequence[int], iteration: int, reason: str) -> RankLostError:
        """The error for an average that failed.

        Who fails says so in the store, and so lives; who says nothing within ``GRACE_S`` is the one that was waited
        for. A rank that fails since another one has given up names the first cause.
        """
        words = " ".join(reason.split())
        short = "time-out" if "imeout" in words or "imed out" in words else words[:120]
        try:
            first = self._first_cause()
            if first is not None:
                return self._error(first, iteration, short)
            self._store.set(f"alive {self.rank}", str(iteration))
            others = [rank for rank in group if rank != self.rank]
            ends = time.monotonic() + GRACE_S
            silent = others
            while silent and time.monotonic() < ends:
                silent = [rank for rank in silent if not self._store.check([f"alive {rank}"])]
                time.sleep(0.05)
            first = self._first_cause()
            names = first or [self.hosts[rank] for rank in silent or others]
            with contextlib.suppress(RuntimeError):
                self._store.set("lost", json.dumps(names))
            return self._error(names, iteration, short)
        except RuntimeError:
            # The store is gone, and with it the rank that keeps it.
            return self._error([self.hosts[0]], iteration, "the store of rank 0 does not answer")

    def _error(self, hosts: Sequence[str], iteration: int, reason: str) -> RankLostError:
        one = self.hosts.index(hosts[0]) if len(hosts) == 1 else None
        return RankLostError(
            f"iteration {iteration}: waited in vain for {listed(list(hosts))} ({reason}); no parameter was "
            "changed by that average. Resume all ranks from one checkpoint",
            rank=one,
            host=None if one is None else hosts[0],
            waited_for=one,
        )

    def _first_cause(self) -> list[str] | None:
        if not self._store.check(["lost"]):
            return None
        return [str(name) for name in json.loads(self._store.get("lost"))]
