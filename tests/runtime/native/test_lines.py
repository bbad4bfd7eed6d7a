"""Connections of a rank that are closed while they are used."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.program import compile_schedule
from netprobe.runtime.native.engine import LOST, NO_MEMORY, Engine, Failed
from netprobe.runtime.native.lines import NativeLines
from netprobe.runtime.tape import Settings, Tape, tape_of


class Flat:
    """What stands for a tensor."""

    def __init__(self) -> None:
        self.memory = bytearray(400)

    def data_ptr(self) -> int:
        """Where its numbers are."""
        import numpy as np

        return int(np.frombuffer(self.memory, dtype=np.uint8).ctypes.data)


@pytest.fixture
def tape() -> Tape:
    """Of rank 0 of two."""
    schedule = build("chunked-ring", 2)
    program, bounds = compile_schedule(schedule), schedule.boundaries(100)
    return tape_of(program, 0, bounds, 4, Settings(), native=True)


def lines_and_peer() -> tuple[NativeLines, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(20)
    return NativeLines({(1, 0): ours}, 2), theirs


def test_a_tape_that_runs_ends_when_its_connections_are_closed(tape: Tape) -> None:
    lines, theirs = lines_and_peer()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lines.run, tape, Flat(), 0, 7, 60.0, adds=True)
        assert theirs.recv(1)
        lines.close()
        with pytest.raises(Failed) as raised:
            running.result(20)
    assert raised.value.code == LOST
    assert lines._sockets[0].fileno() == -1
    with pytest.raises(RuntimeError, match="were closed"):
        lines.run(tape, Flat(), 0, 7, 60.0, adds=True)
    theirs.close()


def test_no_descriptor_is_given_back_while_a_tape_runs(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next file that the process opens gets its number, and what the tape sends."""
    lines, theirs = lines_and_peer()
    begun, end = threading.Event(), threading.Event()

    def run(*_: Any, **__: Any) -> tuple[float, float]:
        begun.set()
        assert end.wait(20)
        return 0.0, 0.0

    monkeypatch.setattr(Engine, "run", run)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lines.run, tape, Flat(), 0, 7, 60.0, adds=True)
        assert begun.wait(20)
        with pytest.raises(RuntimeError, match="is being run"):
            lines.run(tape, Flat(), 0, 7, 60.0, adds=True)
        lines.close()
        assert theirs.recv(1) == b""  # the peer knows already
        assert lines._sockets[0].fileno() >= 0
        end.set()
        running.result(20)
    assert lines._sockets[0].fileno() == -1
    theirs.close()


def test_a_rank_without_memory_blames_no_other(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, theirs = lines_and_peer()

    def run(*_: Any, **__: Any) -> None:
        raise Failed(NO_MEMORY, 0, "no memory for a message that came before its turn")

    monkeypatch.setattr(Engine, "run", run)
    with pytest.raises(RuntimeError, match="no memory"):
        lines.run(tape, Flat(), 0, 7, 60.0, adds=True)
    lines.close()
    theirs.close()
