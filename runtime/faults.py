"""A rank that is lost: which one it is, found out together with the others.

A rank knows only whose message it waited for, and that one may itself have waited for another. So each writes whom
it suspects into the job's store, before it closes its connections, and reads what the suspect wrote: who is
suspected and wrote nothing is the one that is lost. Where the store is gone, or does not answer, so is the rank that
keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep
from typing import Any, TypeVar

from netprobe.core.errors import RankLostError
from netprobe.runtime.within import STORE_S, Patient, SilentError, within

_Made = TypeVar("_Made")
LISTEN_S = 1.0
"""How long others have to say whom they waited for."""
KEEP_S = 5.0
"""How long the store's keeper waits for the others to read: who finds the store gone thinks that its keeper is lost."""
OPEN_GRACE_S = 5.0
"""torch's own time-outs end connecting before this does, where the store answers."""
_PAUSE_S = 0.05


class Faults:
    """What rank ``rank`` finds out; ``names`` are the hosts of all ranks, ``store`` is their own.

    ``keeper``: the rank that keeps the store, where one does (`keeper`).
    """

    def __init__(
        self, rank: int, names: Sequence[str], timeout_s: float, store: Any, keeper: int | None = None
    ) -> None:
        self._rank, self._names, self._timeout_s = rank, names, timeout_s
        self._store, self._keeper = Patient(store, max(1.0, min(STORE_S, timeout_s))), keeper
        self._gone = False
        """The store."""
        self._said: dict[int, str] = {}
        """What others reduced when they gave up."""

    def opened(self, call: Callable[[], _Made]) -> _Made:
        """What ``call`` returns, which connects all ranks, when all have it: who is done may then end at once.

        Raises RankLostError for a rank that does not come.
        """
        others = [rank for rank in range(len(self._names)) if rank != self._rank]
        most_s = self._timeout_s + OPEN_GRACE_S
        keys, until = [f"opened/{rank}" for rank in others], timedelta(seconds=self._timeout_s)
        try:
            made = within(most_s, call)
            self._say(f"opened/{self._rank}", "yes")
            Patient(self._store.store, most_s).ask(lambda store: store.wait(keys, until))
        except (RuntimeError, SilentError) as error:
            self._say(f"opened/{self._rank}", "no")
            deadline = monotonic() + LISTEN_S
            silent = [rank for rank in others if self._said_at(f"opened/{rank}", deadline) is None]
            rank = silent[0] if silent else None
            if self._gone:
                rank = self._keeper
            raise RankLostError(
                f"no connections among the ranks in {self._timeout_s:g} s: "
                + (self._nobody() if rank is None else f"{self._of(rank)} does not answer")
                + f"; end the job, and restart it with a plan for the hosts that are left. Gloo said: {_short(error)}",
                rank=rank,
                host=None if rank is None else self._names[rank],
            ) from None
        return made

    def lost(
        self,
        peer: int,
        timed_out: bool,
        text: str,
        close: Callable[[], None],
        reduced: str = "",
        waited: Sequence[int] = (),
    ) -> RankLostError:
        """The error of a message from or to ``peer`` that failed; ``close`` lets the others learn of it.

        ``reduced`` says of which tensor: ranks that wait for each other's have none that is lost. ``waited``: all whose
        messages were still to come.
        """
        self._say(f"lost/{self._rank}", json.dumps([peer, timed_out, reduced, list(waited)]))
        close()  # whatever the store does
        rank, late, all_spoke = self._culprit(peer, timed_out, waited)
        given_up = all_spoke and self._said_at(f"done/{peer}", 0.0) == str(self._rank)
        self._say(f"done/{self._rank}", str(rank))
        if self._rank == self._keeper:
            self._await_others(rank)
        other = next((r for r, said in self._said.items() if said != reduced), None)
        if all_spoke and other is not None:
            return RankLostError(
                f"this rank reduces {reduced or 'nothing'}, and {self._of(other)} {self._said[other] or 'nothing'}: "
                "all ranks must reduce the same tensors in the same order; the tensor holds no result",
                rank=other,
                host=self._names[other],
                waited_for=peer,
            )
        if given_up:
            return RankLostError(
                f"{self._of(peer)} gave up this rank ({self._of(self._rank)}), which sent nothing for too long: it was "
                f"stopped or out of reach; the tensor holds no result; end the job, and restart it from a checkpoint",
                rank=self._rank,
                host=self._names[self._rank],
                waited_for=peer,
            )
        before = self._of(peer)
        how = (
            f"sent nothing for {self._timeout_s:g} s: it hangs, was stopped, is out of reach, "
            "or has another tensor to reduce"
            if late
            else "has ended or lost its connection"
        )
        via = "" if rank == peer else f" (this rank waited for {before}, which waited for it)"
        if self._gone and rank == self._keeper:
            via = f" (this rank waited for {before}; the store of the job, which {self._of(rank)} keeps, is gone)"
        elif self._gone:
            via = " (or another one that it waited for: the store of the job, where ranks tell, is gone)"
        return RankLostError(
            f"{self._of(rank)} {how}{via}: the tensor holds no result; end the job, and restart it from "
            f"a checkpoint, with a plan for the hosts that are left ({text[:200]})",
            rank=rank,
            host=self._names[rank],
            waited_for=peer,
        )

    def _of(self, rank: int) -> str:
        return f"rank {rank} on {self._names[rank]}"

    def _nobody(self) -> str:
        return "the store of the job is gone" if self._gone else "the network lets none through"

    def _say(self, key: str, text: str) -> None:
        with suppress(Exception):
            self._store.ask(lambda store: store.set(key, text))

    def _culprit(self, peer: int, timed_out: bool, waited: Sequence[int]) -> tuple[int, bool, bool]:
        """Follow who waited for whom to the one that says nothing, and whether its time was up.

        Last, whether none was silent: they waited for each other, which ranks that do the same never do. But where one
        gave up whose time was up, who waited for it, and for the silent one as well, learns of the former first: so
        then all that these waited for are asked.
        """
        seen, ever_late = {self._rank}, timed_out
        links, others = [(peer, timed_out)], [*waited]
        deadline = monotonic() + LISTEN_S
        while links or (ever_late and others):
            at, late = links.pop() if links else (others.pop(0), True)
            if at in seen:
                continue
            said = self._heard(at, deadline)
            if self._gone and self._keeper is not None and self._keeper not in seen:
                return self._keeper, self._store.silent, False
            if said is None:
                return at, late, False
            seen.add(at)
            suspect, late, more = said
            ever_late |= late
            links.append((suspect, late))
            others += more
        return peer, timed_out, True

    def _await_others(self, lost: int) -> None:
        """On the rank that keeps the store: until the others have read there who is lost, or for `KEEP_S`."""
        keys = [f"done/{rank}" for rank in range(len(self._names)) if rank not in (self._rank, lost)]
        deadline = monotonic() + KEEP_S
        with suppress(Exception):
            while keys and monotonic() < deadline and not self._store.ask(lambda store: store.check(keys)):
                sleep(_PAUSE_S)

    def _heard(self, rank: int, deadline: float) -> tuple[int, bool, list[int]] | None:
        """Whom a rank suspects, whether its time was up, and all that it waited for."""
        said = self._said_at(f"lost/{rank}", deadline)
        if said is None:
            return None
        suspect, late, self._said[rank], waited = json.loads(said)
        return int(suspect), bool(late), [int(other) for other in waited]

    def _said_at(self, key: str, deadline: float) -> str | None:
        try:
            while not self._store.ask(lambda store: store.check([key])):
                if monotonic() >= deadline:
                    return None
                sleep(_PAUSE_S)
            return str(self._store.ask(lambda store: store.get(key)), "utf-8")
        except Exception:
            self._gone = True
            return None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
