"""Calls that are waited for no longer than so long, time-outs, and who keeps a store."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.errors import InputError
from netprobe.runtime import within as module
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


def test_connections_to_a_store_that_is_silent_are_closed_when_the_program_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no others."""
    monkeypatch.setattr(module, "END_S", 0.05)

    class Served:
        port: int

    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_connection(silent.getsockname()) as asked,
        socket.create_connection(other.getsockname()) as kept,
    ):
        store, threads = Served(), []
        store.port = silent.getsockname()[1]

        def ask(_: Any) -> bytes:
            threads.append(threading.current_thread())
            return asked.recv(1)

        with pytest.raises(SilentError):
            Patient(store, 0.01).ask(ask)
        module._end()
        threads[0].join(60)
        assert not threads[0].is_alive()
        kept.sendall(b"x")


@pytest.mark.long  # two processes that import torch
def test_a_rank_that_gave_up_on_a_silent_store_ends_with_its_own_code() -> None:
    """Its keeper is killed meanwhile."""
    pytest.importorskip("torch")
    keeper = subprocess.Popen(
        [sys.executable, "-c", KEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with keeper:
        try:
            assert keeper.stdout is not None
            done = subprocess.run(
                [sys.executable, "-m", "tests.runtime.lost_store", str(keeper.pid), keeper.stdout.readline()],
                cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
        finally:
            keeper.kill()
    assert (done.returncode, done.stdout) == (7, "ending\nended\n"), done.stderr


KEEPER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


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
