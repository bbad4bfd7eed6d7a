"""runtime/waiters.py: what came, what failed, whose time is up, and a program that ends while threads wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from netprobe.runtime import waiters as module
from netprobe.runtime.waiters import Awaited, Came, Waiters

ROOT = Path(__file__).resolve().parents[2]
LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=50)


class Work:
    """Ends when ``ended`` is set, with ``error`` where there is one; a wait that is given up tells nothing."""

    def __init__(self, ended: bool = True, error: str = "") -> None:
        self.ended, self.error = threading.Event(), error
        if ended:
            self.ended.set()

    def wait(self, timeout: timedelta) -> None:
        """As torch's."""
        if not self.ended.wait(timeout.total_seconds()):
            raise RuntimeError("given up")
        if self.error:
            raise RuntimeError(self.error)


@contextmanager
def waiting(count: int, cut: Callable[[], bool] = lambda: False) -> Iterator[Waiters]:
    made = Waiters(count, cut)
    threads = list(made.threads)
    yield made
    made.end()
    assert not any(thread.is_alive() for thread in threads)


def put(waiters: Waiters, message: int, *works: Work, timeout: timedelta = LONG) -> None:
    """The last of ``works`` is the message's, those before it must end first: 1, 2 .."""
    waiters.put(Awaited(message, list(enumerate(works[:-1], 1)), lambda: works[-1], timeout))


def test_waiters_say_what_failed_and_end() -> None:
    """Of a message that waits for a send: the send, where that is what failed."""
    with waiting(2) as waiters:
        put(waiters, 3, Work(), Work())
        assert waiters.next() == Came(3)
        put(waiters, 4, Work(error="closed"), Work())
        came = waiters.next()
        assert (came.message, came.failed, str(came.error)) == (4, 1, "closed")
        put(waiters, 5, Work(error="closed"))
        assert waiters.next().failed == 5


def test_the_message_whose_time_is_up_is_told_while_its_thread_goes_on_waiting() -> None:
    late, later = Work(ended=False), Work(ended=False)
    with waiting(3) as waiters:
        put(waiters, 7, late, timeout=SHORT)
        put(waiters, 8, later)
        came = waiters.next()
        assert (came.message, came.failed) == (7, 7) and "imed out" in str(came.error)
        late.ended.set()
        assert waiters.next() == Came(7)  # and not "given up"
        later.ended.set()
        assert waiters.next() == Came(8)


def test_connections_are_cut_where_what_is_waited_for_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_S", 0.05)
    never, cuts = Work(ended=False), []

    def cut() -> bool:
        cuts.append(never.ended.is_set())
        monkeypatch.setattr(module, "END_S", 60.0)
        never.ended.set()
        return True

    with waiting(3, cut) as waiters:
        put(waiters, 1, never)
    assert cuts == [False]
    assert not any(thread.is_alive() for thread in waiters.threads)


def started(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A program of its own, beside this file."""
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.runtime.{script}", *arguments], cwd=ROOT, text=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
def test_a_program_that_ends_with_a_message_that_came_in_part_is_not_aborted() -> None:
    """Gloo tells nothing to who waits for that message. Its time is up while the interpreter ends."""
    pytest.importorskip("torch")
    with started("lost_message") as program:
        said, errors = program.communicate(timeout=300)
    assert (program.returncode, said) == (7, "closed by peer, 1 thread left\nending\nended\n"), errors


@pytest.mark.long  # eight processes that import torch
@pytest.mark.parametrize("keeper", ["rank 0", "another process"])
def test_ranks_end_with_their_own_code_where_one_is_killed_in_the_middle_of_a_message(
    keeper: str, tmp_path: Path
) -> None:
    """Some thread of some rank stays in torch's code."""
    dist = pytest.importorskip("torch.distributed")
    store = (
        dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        if keeper == "another process"
        else None
    )
    where = str(store.port if store else tmp_path / "port")
    ranks = [started("lost_rank", str(rank), where) for rank in range(4)]
    try:
        found = [rank.communicate(timeout=300) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [7, -signal.SIGKILL, 7, 7], found
    lost = [said.split() for said, _ in found if said]
    assert all(one[0] == "1" and one[2:] == ["ending", "ended"] for one in lost)
    assert any(int(one[1]) for one in lost)
