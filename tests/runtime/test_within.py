"""Calls that are waited for no longer than so long, time-outs, and who keeps a store."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from netprobe.core.errors import InputError
from netprobe.runtime.keeper import HOST, NOT_HERE, PROCESS, keeper_of, keeps
from netprobe.runtime.within import Patient, SilentError, checked_timeout, within


def test_a_call_returns_raises_or_is_given_up() -> None:
    assert within(60.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(60.0, lambda: 1 // 0)
    never = threading.Event()
    with pytest.raises(SilentError):
        within(0.01, lambda: never.wait(60))
    never.set()


def test_a_silent_store_is_not_asked_again() -> None:
    never, asked = threading.Event(), []
    store = Patient("store", 0.01)

    def ask(given: Any) -> None:
        asked.append(given)
        never.wait(60)

    for _ in range(3):
        with pytest.raises(SilentError):
            store.ask(ask)
    assert asked == ["store"]
    never.set()


@pytest.mark.parametrize("given", [0, -1, math.nan, math.inf, 1e300, "5", None, True])
def test_what_is_no_time_out_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="timeout_s"):
        checked_timeout(given)


def test_a_time_out_is_seconds() -> None:
    assert checked_timeout(3) == 3.0


@pytest.mark.parametrize(
    ("said", "keeper"),
    [
        ([NOT_HERE, PROCESS, NOT_HERE], 1),
        ([HOST, PROCESS, HOST], 1),
        ([NOT_HERE, NOT_HERE, HOST], 2),
        ([HOST, HOST], None),
        ([NOT_HERE, NOT_HERE], None),
    ],
)
def test_the_keeper_is_the_one_that_serves_the_store_or_the_only_one_on_its_host(
    said: list[int], keeper: int | None
) -> None:
    assert keeper_of(said) == keeper


def test_a_process_knows_whether_it_serves_a_store() -> None:
    dist = pytest.importorskip("torch.distributed")
    assert keeps(dist.HashStore()) == NOT_HERE
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    assert keeps(dist.PrefixStore("a", dist.PrefixStore("b", store))) == PROCESS
