"""A rank that is killed or stopped: every other rank says which, in time, and goes no further."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from netprobe.core.errors import RankLostError
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.runtime import faults
from tests.runtime import jobs, loss_jobs, training_jobs
from tests.runtime.pool import Pool

RANKS, VICTIM = 4, 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "killed 0",
        "killed 1 async",
        "killed 0 forked",
        "stopped 0",
        "killed 1 2lha",  # later it may have sent all that a rank needs
        "stopped 1 2lha",
        "killed 4 async torch",
        "stopped 0 torch",
        "killed 2 2lha torch",
        "stopped 1 2lha torch",
    ],
)
def test_every_other_rank_names_the_lost_one(change: str) -> None:
    """With 2LHA among groups of this shape torch's messages overtake."""
    pool = Pool(RANKS)
    try:
        overtakes = "2lha" in change
        plan = jobs.plan_of(two_level([[0], [1, 2, 3]], 8) if overtakes else build("chunked-ring", RANKS))
        for rank in range(RANKS):
            # Who is killed is noticed by all at once: the test's own time ends before this one.
            timeout_s = 5.0 if change.startswith("stopped") else 1000.0
            pool.pipes[rank].send((loss_jobs.all_reduce_with, (change, plan, VICTIM, timeout_s)))
        found = pool.answers([rank for rank in range(RANKS) if rank != VICTIM])
        assert found == [(VICTIM, f"h{VICTIM}", True)] * (RANKS - 1)
    finally:
        pool.processes[VICTIM].kill()
        pool.close()


@pytest.mark.slow
def test_an_executor_may_be_closed_below_a_signals_handler() -> None:
    """It is not waited for in the thread that it waits in; the others learn of it at once."""
    pool = Pool(2)
    try:
        mine, other = pool.run(loss_jobs.closed_below, jobs.plan_of(build("chunked-ring", 2)))
        assert "was closed" in mine
        assert "rank 0 on h0 has ended" in other
    finally:
        pool.close()


@pytest.mark.long  # its processes import what DistributedDataParallel imports at its first use
def test_a_backward_pass_ends_with_the_lost_ranks_name() -> None:
    pool = Pool(RANKS)
    try:
        plan = jobs.plan_of(build("chunked-ring", RANKS))
        for rank in range(RANKS):
            pool.pipes[rank].send((training_jobs.train_until_lost, (plan, VICTIM, 60.0)))
        for said, same in pool.answers([rank for rank in range(RANKS) if rank != VICTIM]):
            assert f"rank {VICTIM} on h{VICTIM}" in said
            assert same
    finally:
        pool.close()


class Store:
    """A store that answers until its keeper is ``gone``, or ``silent``; ``heard`` is what others have said."""

    def __init__(self, how: str, heard: dict[str, str] | None = None) -> None:
        self._how, self._heard = how, heard or {}
        self._never = threading.Event()

    def set(self, key: str, text: str) -> None:
        """Nobody tells that it did not come."""

    def get(self, key: str) -> bytes:
        """What was said."""
        return self._heard[key].encode()

    def check(self, keys: list[str]) -> bool:
        """Whether it was said."""
        if set(keys) <= self._heard.keys():
            return True
        if self._how == "silent":
            self._never.wait(60)
        raise RuntimeError("Connection reset by peer")


@pytest.mark.parametrize(
    ("how", "heard", "keeper", "named", "words"),
    [
        ("silent", {}, 0, 0, "sent nothing"),
        ("gone", {}, 0, 0, "has ended"),
        ("gone", {}, None, 2, "or another one"),
        # The keeper has said whom it waits for: it ended by its error, and not the other way round.
        ("gone", {"lost/2": '[0, false, "", []]', "lost/0": '[1, false, "", []]'}, 0, 1, "has ended"),
    ],
)
def test_the_store_goes_with_the_rank_that_keeps_it(
    how: str, heard: dict[str, str], keeper: int | None, named: int, words: str
) -> None:
    """Rank 3 waited for rank 2, which says nothing, since nobody can."""
    names = [f"h{rank}" for rank in range(4)]
    closed: list[bool] = []
    found = faults.Faults(3, names, 0.01, Store(how, heard), keeper)
    error = found.lost(2, False, "Gloo's text", lambda: closed.append(True))
    assert (error.rank, error.host, error.waited_for, closed) == (named, f"h{named}", 2, [True])
    assert words in str(error)


def test_a_rank_that_is_stopped_is_named_though_others_gave_each_other_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time of rank 0 is up first, and rank 1 learns of that while it waits for rank 2 as well, which is stopped."""
    monkeypatch.setattr(faults, "LISTEN_S", 0.3)
    store = pytest.importorskip("torch.distributed").HashStore()
    closed = threading.Event()
    names = ["h0", "h1", "h2"]

    def other() -> RankLostError:
        closed.wait(20)
        return faults.Faults(1, names, 60.0, store).lost(0, False, "", lambda: None, "x", [2, 0])

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(other)
        error = faults.Faults(0, names, 60.0, store).lost(1, True, "", closed.set, "x", [1])
        assert (error.rank, error.waited_for) == (2, 1)
        assert late.result().rank == 2
        assert "sent nothing" in str(late.result())


def test_a_rank_that_was_stopped_and_goes_on_blames_no_other() -> None:
    """The others gave it up, and have ended."""
    store = pytest.importorskip("torch.distributed").HashStore()
    names = ["h0", "h1", "h2"]
    store.set("lost/0", '[2, true, "x", [2]]')
    store.set("done/0", "2")
    error = faults.Faults(2, names, 60.0, store).lost(0, False, "", lambda: None, "x", [0])
    assert (error.rank, error.host, error.waited_for) == (2, "h2", 0)
    assert "gave up this rank" in str(error)
    store.set("done/0", "1")
    assert faults.Faults(2, names, 60.0, store).lost(0, False, "", lambda: None, "x", [0]).rank == 0


def test_ranks_that_found_each_other_gone_ask_no_third() -> None:
    """Between two of them the network was cut; rank 2, which computes and says nothing, has no part in it."""
    store = pytest.importorskip("torch.distributed").HashStore()
    store.set("lost/1", '[0, false, "x", [0]]')
    error = faults.Faults(0, ["h0", "h1", "h2"], 60.0, store).lost(1, False, "", lambda: None, "x", [1, 2])
    assert error.rank == 1


def test_the_keeper_of_the_store_stays_until_the_others_have_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who reads late finds the store gone, and names its keeper."""
    monkeypatch.setattr(faults, "LISTEN_S", 0.0)
    store = pytest.importorskip("torch.distributed").HashStore()
    names = ["h0", "h1", "h2"]

    def late() -> RankLostError:
        time.sleep(0.3)
        return faults.Faults(2, names, 60.0, store, 0).lost(1, False, "closed", lambda: None)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(late)
        error = faults.Faults(0, names, 60.0, store, 0).lost(1, False, "closed", lambda: None)
        assert error.rank == 1
        assert store.check(["done/2"])
        assert other.result().rank == 1


def test_connections_that_wait_for_a_silent_store_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "OPEN_GRACE_S", 0.0)
    never = threading.Event()
    with pytest.raises(RankLostError) as raised:
        faults.Faults(1, ["h0", "h1"], 0.05, Store("silent"), 0).opened(lambda: never.wait(60))
    assert (raised.value.rank, raised.value.host) == (0, "h0")


def refuse() -> None:
    raise RuntimeError("Wait timeout")


@pytest.mark.parametrize("silent", [2, None])
def test_a_rank_that_is_lost_while_connections_are_opened_is_named(
    monkeypatch: pytest.MonkeyPatch, silent: int | None
) -> None:
    """Rank 1 got its connections, rank 2 says nothing (or has none either), and rank 3 has given up as rank 0 does."""
    dist = pytest.importorskip("torch.distributed")
    monkeypatch.setattr(faults, "LISTEN_S", 0.0)
    store = dist.HashStore()
    names = [f"h{rank}" for rank in range(4)]
    calls: dict[int, Callable[[], Any]] = {1: lambda: "lines", 2: refuse, 3: refuse}
    for rank, call in calls.items():
        if rank != silent:
            with pytest.raises(RankLostError):
                faults.Faults(rank, names, 0.01, store).opened(call)
    with pytest.raises(RankLostError) as raised:
        faults.Faults(0, names, 0.01, store).opened(refuse)
    assert raised.value.rank == silent
    assert raised.value.host == (None if silent is None else "h2")
