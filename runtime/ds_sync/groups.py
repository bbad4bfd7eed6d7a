"""Process groups of a pattern, and who is missing when an average in one of them fails."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from netprobe.core.errors import InputError, RankLostError
from netprobe.core.text import listed
from netprobe.plan.ds_sync.consensus import Groups
from netprobe.runtime.within import STORE_S, Patient, SilentError, within

_NUMBERS = itertools.count()
GRACE_S = 3.0
"""How long a rank whose average failed waits for others to say that they live."""


class ProcessGroups:
    """The process groups of all averaging groups, each made once, in one order on every rank.

    ``hosts``: the name of the host of each rank. ``world``: the process group of all ranks; None: torch's own.
    ``keeper``: the rank that keeps the job's store, where one does (`keeper`).
    """

    def __init__(
        self, hosts: Sequence[str], timeout_s: float, world: Any = None, keeper: int | None = None
    ) -> None:
        import torch.distributed as dist

        self._dist = dist
        self.hosts = list(hosts)
        self.world = world if world is not None else dist.group.WORLD
        self.rank = dist.get_rank(self.world)
        self.timeout = timedelta(seconds=timeout_s)
        self._finishing = False
        self._made: dict[tuple[int, ...], Any] = {}
        store = dist.distributed_c10d._get_default_store()
        # All ranks make their trainers in one order, so that numbers of them agree.
        own = dist.PrefixStore(f"netprobe ds_sync {next(_NUMBERS)}", store)
        self._store, self._keeper = Patient(own, max(1.0, min(STORE_S, timeout_s))), keeper

    def make(self, pattern: Sequence[Groups], iteration: int) -> None:
        """Make what ``pattern`` (groups of ranks) needs and is not made yet. All ranks must call it with the same.

        Raises RankLostError.
        """
        wanted = {tuple(sorted(group)) for iteration in pattern for group in iteration.groups}
        ranks = self._dist.get_process_group_ranks(self.world)
        for group in sorted(wanted - self._made.keys(), key=lambda one: (len(one), one)):
            if len(group) == len(self.hosts):
                self._made[group] = self.world
            elif len(group) > 1:
                self._made[group] = self._new([ranks[r] for r in group], iteration)
            else:
                self._made[group] = None

    def _new(self, ranks: list[int], iteration: int) -> Any:
        """torch's new group; on all ranks, also those that are not in it."""
        most_s = 2 * self.timeout.total_seconds() + GRACE_S  # it connects, and then waits for all
        try:
            return within(most_s, lambda: self._dist.new_group(ranks, timeout=self.timeout))
        except (RuntimeError, SilentError) as error:
            raise self.lost(range(len(self.hosts)), iteration, str(error)) from None

    def together(self, start: Callable[[], Any], iteration: int) -> None:
        """A collective of all ranks from start to end: ``start`` returns its work. Raises RankLostError."""
        everyone = range(len(self.hosts))
        try:
            work = start()
        except RuntimeError as error:
            raise self.lost(everyone, iteration, str(error)) from None
        self.wait(work, everyone, iteration)

    def finish(self, iteration: int) -> None:
        """Wait until all ranks have come to their end, after the same iteration.

        Raises RankLostError, and InputError where they have come to it after different ones: a sum of the end would
        else meet one of an iteration.
        """
        self._finishing = True
        everyone = range(len(self.hosts))
        try:
            self._store.ask(lambda store: store.set(_finish_key(self.rank), str(iteration)))
            ends = time.monotonic() + self.timeout.total_seconds()
            while len(after := self._ended(everyone)) < len(self.hosts):
                if time.monotonic() > ends or self._first_cause() is not None:
                    raise RuntimeError("time-out")
                time.sleep(0.02)
        except (RuntimeError, SilentError) as error:
            lost = self.lost(everyone, iteration, str(error))
            if lost.rank != self.rank:
                raise lost from None
            raise InputError(
                f"finish() after {iteration} iterations, and other ranks go on: give all ranks as many batches"
            ) from None
        if len(set(after.values())) > 1:
            shown = ", ".join(f"{self.hosts[rank]} after {one}" for rank, one in list(after.items())[:8])
            raise InputError(f"finish() after different iterations ({shown}): give all ranks as many batches")

    def _ended(self, group: Sequence[int]) -> dict[int, int]:
        """Those of ``group`` that have come to their end, and after which iteration."""
        keys = {rank: _finish_key(rank) for rank in group}
        return self._store.ask(
            lambda store: {rank: int(store.get(key)) for rank, key in keys.items() if store.check([key])}
        )

    def sum(self, buffer: Any, iteration: int) -> None:
        """The sum over all ranks in place of ``buffer``. Raises RankLostError."""
        self.together(lambda: self._dist.all_reduce(buffer, group=self.world, async_op=True), iteration)

    def broadcast(self, buffer: Any, iteration: int) -> None:
        """Rank 0's ``buffer`` on all ranks. Raises RankLostError."""
        root = self._dist.get_process_group_ranks(self.world)[0]
        self.together(lambda: self._dist.broadcast(buffer, root, group=self.world, async_op=True), iteration)

    def start(self, buffer: Any, group: Sequence[int], iteration: int) -> Any:
        """Begin to sum ``buffer`` in place over ``group`` (ranks, ascending); None where it is alone."""
        handle = self._made[tuple(group)]
        if handle is None:
            return None
        try:
            return self._dist.all_reduce(buffer, group=handle, async_op=True)
        except RuntimeError as error:
            raise self.lost(group, iteration, str(error)) from None

    def wait(self, work: Any, group: Sequence[int], iteration: int) -> None:
        """Wait for a sum. Raises RankLostError that names whom we waited for."""
        try:
            if not work.wait(self.timeout):
                raise RuntimeError("the time is over")
        except RuntimeError as error:
            raise self.lost(group, iteration, str(error)) from None

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
                return self._error(first[0], iteration, first[1])
            self._store.ask(lambda store: store.set(f"alive {self.rank}", str(iteration)))
            others = [rank for rank in group if rank != self.rank]
            ended = {} if self._finishing else self._ended(others)
            if ended:
                early, after = next(iter(ended.items()))
                short = f"it has called finish() after {after} iterations: give all ranks as many batches"
                others = [early]
            ends = time.monotonic() + GRACE_S
            silent = [] if ended else others
            while silent and time.monotonic() < ends:
                silent = [rank for rank in silent if not self._has(f"alive {rank}")]
                time.sleep(0.05)
            names, short = self._first_cause() or ([self.hosts[rank] for rank in silent or others], short)
            with contextlib.suppress(RuntimeError, SilentError):
                self._store.ask(lambda store: store.set("lost", json.dumps([names, short])))
            return self._error(names, iteration, short)
        except (RuntimeError, SilentError):
            # The store is gone, and with it the rank that keeps it.
            gone = [rank for rank in group if rank != self.rank] if self._keeper is None else [self._keeper]
            names = [self.hosts[rank] for rank in gone]
            return self._error(names, iteration, "the job's store does not answer")

    def _error(self, hosts: Sequence[str], iteration: int, reason: str) -> RankLostError:
        one = self.hosts.index(hosts[0]) if len(hosts) == 1 else None
        return RankLostError(
            f"iteration {iteration}: waited in vain for {listed(list(hosts))} ({reason}); no parameter was "
            "changed by that average. Resume all ranks from one checkpoint",
            rank=one,
            host=None if one is None else hosts[0],
            waited_for=one,
        )

    def _first_cause(self) -> tuple[list[str], str] | None:
        """The hosts that another rank has found lost, and how."""
        if not self._has("lost"):
            return None
        names, reason = json.loads(self._store.ask(lambda store: store.get("lost")))
        return [str(name) for name in names], str(reason)

    def _has(self, key: str) -> bool:
        return bool(self._store.ask(lambda store: store.check([key])))


def _finish_key(rank: int) -> str:
    return f"finish {rank}"
