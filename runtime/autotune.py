"""Masters of a running job moved away from hosts that have become slow, and back: `plan/tune` on real measurements.

    autotune = Autotune(executor)      # on every rank, at the same point
    ...
    autotune.step()                    # on every rank, at the end of each iteration

Every tenth iteration each rank tells rank 0 how long its collectives took and how fast its links were while data were
under way (the kernel's counters of its own connections). Rank 0 decides and tells all; each rank makes the new
schedule, proves what moved, and tells rank 0 the digest; only when all are the same do all go on with it, before the
next collective. (Luo 2020, section 4.2.3.)
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InternalError, NetprobeError, WrongWorldError
from netprobe.plan.schedule.builders import proved
from netprobe.plan.schedule.moved import prove_moved
from netprobe.plan.tune.masters import Masters, masters_of
from netprobe.plan.tune.policy import Reading, Rules, Tuner
from netprobe.probe.agent.collective.program import MAX_CHUNKS
from netprobe.runtime.collective import Collective
from netprobe.runtime.executor import Executor
from netprobe.runtime.lines import Lines
from netprobe.runtime.sockets import LinkRates, own_connections, peers_of
from netprobe.runtime.talk import Talk

Floats = NDArray[np.float64]
EVERY = 10
CHUNKS_A_HOST = 40
LINES_KEPT = 1000


class Autotune:
    """Tunes ``executor``, a step every ``every`` iterations.

    A plan whose hosts are masters of fewer than ``chunks_a_host`` chunks is first cut anew, so that there is something
    to move. ``log`` has a line a step; ``tell`` is called on rank 0 with each line that says of a change. Plans without
    masters (all but 2LHA and flat) are watched only, with a warning. Raises as `Executor` does.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        every: int = EVERY,
        chunks_a_host: int = CHUNKS_A_HOST,
        rules: Rules | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._executor, self._every, self._tell = executor, every, tell
        self.log: deque[str] = deque(maxlen=LINES_KEPT)
        self.iterations = 0
        self._seconds: list[float] = []
        self._spent_s = 0.0
        self._bytes = 0.0
        names = [host.name for host in executor.collective.hosts]
        self._names = names
        found = masters_of(executor.collective.schedule)
        if found is None and executor.rank == 0:
            warnings.warn(
                f"{executor.collective.schedule.name} has no masters to move: its times are watched, and a sudden "
                "change is a reason to plan anew; plans 2lha and flat are tuned",
                RuntimeWarning,
                stacklevel=2,
            )
        ranks = tuple(range(len(names)))
        masters = found or Masters(
            groups=(ranks,), home=np.zeros(1, np.int64), local=np.zeros((1, 1), np.int64)
        )
        self._masters = masters
        self._tuner = Tuner(masters, names, rules, moves=found is not None)
        wanted = min(MAX_CHUNKS, chunks_a_host * max(map(len, masters.groups)))
        finer = masters.cut(wanted) if found is not None and masters.chunks < wanted else None
        executor.between(lambda lines: self._begin(lines, finer, rules))

    def step(self, *, wait: bool = True) -> None:
        """The end of an iteration, on every rank, after the same collectives.

        Raises RankLostError, and WrongWorldError where a rank has other masters than rank 0; without ``wait`` the
        executor's next collective does.
        """
        self._executor.between(self._iteration, wait=wait)

    # How it is done, between two collectives.

    def _begin(self, lines: Lines, finer: Masters | None, rules: Rules | None) -> None:
        """Cut the plan as finely as it needs to be, and find this rank's connections."""
        talk = self._talk(lines)
        if finer is not None:
            schedule = self._schedule(finer)
            program, proof = proved(schedule)
            made = dataclasses.replace(
                self._executor.collective, schedule=schedule, program=program, proof=proof
            )
            self._agree(talk, made.digest, "")
            self._executor.adopt(made)
            self._masters = finer
            self._tuner = Tuner(finer, self._names, rules)
        ends = talk.gather(list(own_connections().items()))
        found = peers_of([{d: (own, other) for d, (own, other) in one} for one in ends]) if ends else []
        peers: list[tuple[int, int]] = talk.give([list(one.items()) for one in found])
        self._rates = LinkRates(dict(peers), len(self._names))
        self._spent_s = self._spent()
        self._bytes = self._executor.traffic().reduced_bytes

    def _iteration(self, lines: Lines) -> None:
        spent = self._spent()
        # Less than before: someone has called the executor's `reset`.
        self._seconds.append(spent - self._spent_s if spent >= self._spent_s else spent)
        self._spent_s = spent
        self.iterations += 1
        if self.iterations % self._every == 0:
            self._tune(self._talk(lines))

    def _tune(self, talk: Talk) -> None:
        """One step: measurements to rank 0, its decision to all, and the switch."""
        bytes_now = self._executor.traffic().reduced_bytes
        size_bytes, self._bytes = (bytes_now - self._bytes) / len(self._seconds), bytes_now
        rates, rtt_s = self._rates.take()
        said = talk.gather([self._seconds, _listed(rates), _number(rtt_s)])
        self._seconds = []
        decision = talk.spread(self._decide(said, size_bytes) if talk.rank == 0 else None)
        if decision["fault"]:
            raise InternalError(f"no step of tuning: {decision['fault']}")
        line = f"iteration {self.iterations}: {decision['text']}"
        self.log.append(line)
        if decision["chunks"]:
            self._switch(talk, decision)
            if self._tell is not None and talk.rank == 0:
                self._tell(line)

    def _decide(self, said: Sequence[Any], size_bytes: float) -> dict[str, Any]:
        """Rank 0's decision; what goes wrong is told to all, who would otherwise wait."""
        try:
            reading = reading_of(said, size_bytes, self._masters.groups)
            verdict = self._tuner.step(reading)
            moved = verdict.masters.moved_from(self._masters)
        except Exception as error:
            return {"fault": f"{type(error).__name__}: {error}", "text": "", "chunks": []}
        return {
            "fault": "",
            "text": f"{reading.seconds:.3g} s, {verdict.kind}: {verdict.text}",
            "chunks": moved.tolist(),
            "home": verdict.masters.home[moved].tolist(),
            "local": verdict.masters.local[moved].tolist(),
        }

    def _switch(self, talk: Talk, decision: Mapping[str, Any]) -> None:
        """Other masters on all ranks at once, or on none: each proves what moved and tells its digest."""
        digest, fault = "", ""
        made: Collective | None = None
        masters = self._masters
        try:
            home, local = masters.home.copy(), masters.local.copy()
            home[decision["chunks"]] = decision["home"]
            local[decision["chunks"]] = decision["local"]
            masters = Masters(groups=masters.groups, home=home, local=local)
            made = self._moved(masters)
            digest = made.digest
        except (ValueError, NetprobeError) as error:
            fault = str(error)
        self._agree(talk, digest, fault)
        assert made is not None
        self._executor.adopt(made)
        self._masters = masters

    def _moved(self, masters: Masters) -> Collective:
        """The collective with other masters, what moved proved."""
        old = self._executor.collective
        schedule = self._schedule(masters)
        program, proof = prove_moved(old.schedule, old.program, old.proof, schedule)
        return dataclasses.replace(old, schedule=schedule, program=program, proof=proof)

    def _agree(self, talk: Talk, digest: str, fault: str) -> None:
        """Raises WrongWorldError on all ranks unless all have the digest of rank 0, and no fault."""
        every = talk.gather([digest, fault])
        wrong = [rank for rank, (one, bad) in enumerate(every) if bad or one != digest]
        why = next((bad for _, bad in every if bad), "its schedule is not that of rank 0")
        wrong, why = talk.spread([wrong, why])
        if wrong:
            raise WrongWorldError(
                f"rank {wrong[0]} on {self._names[wrong[0]]} refuses the new masters: {why}; no rank has changed "
                "its schedule. All ranks need the same netprobe: end the job, and restart it from a checkpoint",
                ranks=wrong,
            )

    def _schedule(self, masters: Masters) -> Any:
        old = self._executor.collective.schedule
        return masters.schedule(channels=old.channels, name=old.name)

    def _talk(self, lines: Lines) -> Talk:
        return Talk(lines, self._executor.rank, len(self._names))

    def _spent(self) -> float:
        """Seconds in collectives so far, of this rank."""
        told = self._executor.breakdown()
        return told.copy_s + told.wire_s + told.reduce_s + told.wait_s + told.other_s


def reading_of(said: Sequence[Any], size_bytes: float, groups: Sequence[Sequence[int]]) -> Reading:
    """The window's reading from what each rank says: [seconds of each iteration, (N,) its links' rates, round trip].

    The last rank to begin a collective has not waited for others, so the least of the ranks' times counts. A host can
    send what its links carry together, and receive what theirs to it do: the lesser of the two is its rate.
    """
    seconds = np.median(np.array([one[0] for one in said], dtype=np.float64).min(axis=0))
    link = np.array([one[1] for one in said], dtype=np.float64)
    known = np.isfinite(link)
    filled = np.where(known, link, 0.0)
    out = np.where(known.any(axis=1), filled.sum(axis=1), np.nan)
    into = np.where(known.any(axis=0), filled.sum(axis=0), np.nan)
    between = []
    for own in groups:
        others = [rank for rank in range(len(said)) if rank not in set(own)]
        between.append(float(filled[np.ix_(list(own), others)].sum()))
    return Reading(
        seconds=float(seconds),
        size_bytes=size_bytes,
        rates=np.fmin(out, into),
        rtt_s=np.array([one[2] for one in said], dtype=np.float64),
        between=np.array(between),
    )


def _listed(values: Floats) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
