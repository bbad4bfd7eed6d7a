"""The library in C: all ranks of a world in threads, over socket pairs."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.agent.collective.program import RECEIVE
from netprobe.runtime.native import engine
from netprobe.runtime.native.build import library
from netprobe.runtime.native.engine import LOST, TIMED_OUT, UNLIKE, Engine, Failed
from netprobe.runtime.tape import Settings, Tape, tape_of
from netprobe.runtime.tensors import DTYPES
from tests.properties import examples

NUMPY = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "int8": np.int8,
    "int64": np.int64,
}
HEADER = struct.Struct("=QIIQ")
SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "2lha": lambda: two_level([[0, 3], [1, 4, 2], [5]], 7, channels=2),
    "hierarchical": lambda: hierarchical([[0, 1, 2], [5, 4, 3]], channels=1),
    **{
        name: lambda name=name: build(name, 5)  # type: ignore[misc]
        for name, algorithm in ALGORITHMS.items()
        if not algorithm.scatters
    },
}


class World:
    """Ranks with a socket pair for every two of them and channel; ``buffer_bytes`` of each socket."""

    def __init__(self, ranks: int, channels: int, buffer_bytes: int = 1 << 16) -> None:
        self.sockets: list[dict[tuple[int, int], socket.socket]] = [{} for _ in range(ranks)]
        for a in range(ranks):
            for b in range(a + 1, ranks):
                for channel in range(channels):
                    pair = socket.socketpair()
                    for one in pair:
                        one.setblocking(False)
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
                    self.sockets[a][b, channel], self.sockets[b][a, channel] = pair
        self.engines = [
            Engine([one.fileno() for one in own.values()], {key: at for at, key in enumerate(own)})
            for own in self.sockets
        ]

    def run(self, tapes: Sequence[Tape], data: Sequence[Any], kind: str, *, late: float = 0.0) -> list[Any]:
        """A collective in every rank at once, which begin up to ``late`` seconds apart; errors or None."""

        def one(rank: int) -> Any:
            time.sleep(random.Random(rank).random() * late)
            try:
                address = data[rank].ctypes.data
                self.engines[rank].run(tapes[rank], address, DTYPES.index(kind), 7, 20.0, adds=True)
            except Failed as failed:
                return failed
            return None

        with ThreadPoolExecutor(len(tapes)) as threads:
            return list(threads.map(one, range(len(tapes))))

    def close(self) -> None:
        """End it."""
        for own in self.sockets:
            for one in own.values():
                one.close()


def tapes_of(schedule: Schedule, elements: int, itemsize: int, message_bytes: int) -> list[Tape]:
    program, bounds = compile_schedule(schedule), schedule.boundaries(elements)
    settings = Settings(message_bytes=message_bytes)
    return [tape_of(program, rank, bounds, itemsize, settings, native=True) for rank in range(schedule.ranks)]


@examples(60)
@given(
    name=st.sampled_from(sorted(SCHEDULES)),
    kind=st.sampled_from(sorted(NUMPY)),
    elements=st.one_of(st.integers(1, 50), st.integers(51, 9_000)),
    message_bytes=st.sampled_from([64, 1000, 1 << 20]),
    buffer_bytes=st.sampled_from([1, 1 << 16]),
    seed=st.integers(0, 1 << 30),
)
def test_sums_are_right_and_the_same_bits_on_every_rank_and_run(
    name: str, kind: str, elements: int, message_bytes: int, buffer_bytes: int, seed: int
) -> None:
    """Sockets that hold little cut messages anywhere, between two bytes of a number too."""
    schedule = SCHEDULES[name]()
    dtype: Any = NUMPY[kind]
    rng = np.random.default_rng(seed)
    tapes = tapes_of(schedule, elements, np.dtype(dtype).itemsize, message_bytes)
    own = [rng.integers(-100, 100, elements).astype(dtype) for _ in range(schedule.ranks)]
    if np.dtype(dtype).kind == "f":
        own = [(values * rng.random(elements)).astype(dtype) for values in own]
    exact = np.sum(
        [values.astype(np.float64 if np.dtype(dtype).kind == "f" else dtype) for values in own], axis=0
    )
    world = World(schedule.ranks, schedule.channels, buffer_bytes)
    found = []
    for turn in range(2):
        data = [values.copy() for values in own]
        assert world.run(tapes, data, kind, late=0.003 * turn) == [None] * schedule.ranks
        found += data
    world.close()
    assert len({values.tobytes() for values in found}) == 1
    if np.dtype(dtype).kind == "f":
        np.testing.assert_allclose(
            found[0], exact, atol=float(np.finfo(dtype).eps) * 100 * schedule.ranks**1.5
        )
    else:
        assert (found[0] == exact.astype(dtype)).all()


def test_every_half_and_bfloat_is_added_as_torch_does() -> None:
    """All 65,536 of them to themselves, and to others."""
    import torch

    every = np.arange(1 << 16, dtype=np.uint16)
    for kind in ("float16", "bfloat16"):
        for shift in (0, 1, 255, 12_345):
            pair = [every, np.roll(every, shift)]
            theirs = [torch.from_numpy(one.copy()).view(getattr(torch, kind)) for one in pair]
            wanted = theirs[0] + theirs[1]
            tapes = tapes_of(build("chunked-ring", 2), len(every), 2, 1 << 20)
            world = World(2, 1)
            data = [one.copy() for one in pair]
            assert world.run(tapes, data, kind) == [None, None]
            world.close()
            got = torch.from_numpy(data[0]).view(getattr(torch, kind))
            assert bool((got.isnan() == wanted.isnan()).all())
            same = got.view(torch.int16) == wanted.view(torch.int16)
            assert bool((same | got.isnan()).all()), (kind, shift)


def test_ranks_may_be_a_collective_apart() -> None:
    """A rank that only sends is done at once, and its next collective's messages wait."""
    schedule = two_level([[0], [1, 2]], 3)
    tapes = tapes_of(schedule, 999, 4, 100)
    world = World(3, 1)
    data = [np.full(999, rank + 1.0, np.float32) for rank in range(3)]

    def several(rank: int) -> float:
        for _ in range(20):
            time.sleep(0.001 * rank)
            data[rank][:] = rank + 1
            world.engines[rank].run(tapes[rank], data[rank].ctypes.data, 0, 7, 20.0, adds=True)
        return float(data[rank].max())

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(several, range(3))) == [6.0] * 3
    world.close()


class Peer:
    """Rank 0 of two, and this test in the place of rank 1."""

    def __init__(self, timeout_s: float = 20.0) -> None:
        self.world = World(2, 1)
        self.tapes = tapes_of(build("chunked-ring", 2), 100, 4, 1 << 20)
        self.data = np.zeros(100, np.float32)
        self.socket = self.world.sockets[1][0, 0]
        self.socket.setblocking(True)
        self._timeout_s, self.failed = timeout_s, Failed(-1, -1, "")
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.world.engines[0].run(self.tapes[0], self.data.ctypes.data, 0, 7, self._timeout_s, adds=True)
        except Failed as failed:
            self.failed = failed

    def end(self) -> Failed:
        """What rank 0 says."""
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.world.close()
        return self.failed


def test_numbers_that_come_in_pieces_are_added_where_they_belong() -> None:
    """What one read brings may end anywhere in a header or a number."""
    peer = Peer()
    rng, wanted = np.random.default_rng(3), np.zeros(100, np.float32)
    for one in peer.tapes[0].messages:
        if one.kind != RECEIVE:
            continue
        own = rng.random(one.end - one.begin, dtype=np.float32)
        wanted[one.begin : one.end] += own  # what rank 0 has is 0
        text, at = HEADER.pack(1, 7, one.tag, own.nbytes) + own.tobytes(), 0
        while at < len(text):
            size = int(rng.integers(1, 30))
            peer.socket.sendall(text[at : at + size])
            at += size
            time.sleep(0.002)
    assert peer.end().code == -1
    assert (peer.data == wanted).all()


def test_a_peer_that_ends_in_the_middle_of_a_message_is_lost() -> None:
    peer = Peer()
    peer.socket.sendall(HEADER.pack(1, 7, 0, 200) + bytes(99))
    peer.socket.close()
    failed = peer.end()
    assert (failed.code, failed.link) == (LOST, 0)


def test_a_peer_that_sends_nothing_is_given_up_in_time() -> None:
    began = time.monotonic()
    peer = Peer(timeout_s=0.5)
    failed = peer.end()
    assert (failed.code, failed.link, failed.missing) == (TIMED_OUT, 0, (0,))
    assert time.monotonic() - began >= 0.5


def test_who_a_rank_waited_for_is_told_first_message_first() -> None:
    """Rank 1 has sent nothing, rank 2 all, and rank 3 a message of two."""
    schedule = two_level([[0, 1, 2, 3]], 8)
    tape = tapes_of(schedule, 80, 4, 1 << 20)[0]
    world = World(4, 1)
    data = np.zeros(80, np.float32)
    for peer, most in ((2, 99), (3, 1)):
        own = [one for one in tape.messages if one.kind == RECEIVE and one.peer == peer]
        for one in own[:most]:
            size = 4 * (one.end - one.begin)
            world.sockets[peer][0, 0].sendall(HEADER.pack(1, 7, one.tag, size) + bytes(size))
    with pytest.raises(Failed) as raised:
        world.engines[0].run(tape, data.ctypes.data, 0, 7, 0.3, adds=True)
    peers = [peer for peer, _ in world.sockets[0]]
    assert [peers[link] for link in raised.value.missing] == [1, 3]
    assert peers[raised.value.link] == 1
    world.close()


def test_time_in_which_a_process_was_stopped_does_not_count() -> None:
    """As a batch system stops and continues all ranks of a job: none has been silent then."""
    world = World(2, 1)
    tape = tapes_of(build("chunked-ring", 2), 100, 4, 1 << 20)[0]
    child = os.fork()
    if not child:
        code = 1
        try:
            data = np.zeros(100, np.float32)
            world.engines[0].run(tape, data.ctypes.data, 0, 7, 2.0, adds=True)
        except Failed as failed:
            code = failed.code
        finally:
            os._exit(code)
    theirs = world.sockets[1][0, 0]
    theirs.setblocking(True)
    theirs.settimeout(20)
    assert theirs.recv(1)  # it runs
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    time.sleep(2.2)
    os.kill(child, signal.SIGCONT)
    time.sleep(0.2)
    theirs.sendall(HEADER.pack(9, 7, 0, 200))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == UNLIKE
    world.close()


@pytest.mark.parametrize(
    "header",
    [
        (2, 7, 0, 200),  # another collective
        (1, 8, 0, 200),  # another tensor
        (1, 7, 9, 200),  # no such message
        (1, 7, (1 << 32) - 1, 200),
        (1, 7, 0, 204),  # another length
        (1, 7, 0, (1 << 64) - 1),
        (1, 7, 0, 0),
    ],
)
def test_a_message_that_is_not_the_tapes_is_never_added(header: tuple[int, ...]) -> None:
    peer = Peer()
    peer.socket.sendall(HEADER.pack(*header) + b"\x40" * 400)
    assert peer.end().code == UNLIKE
    assert not peer.data.any()


def test_the_same_message_twice_is_refused() -> None:
    peer = Peer()
    peer.socket.sendall((HEADER.pack(1, 7, 0, 200) + bytes(200)) * 2)
    assert peer.end().code == UNLIKE


@examples(40)
@given(garbage=st.binary(min_size=24, max_size=4000))
def test_whatever_comes_ends_in_an_error(garbage: bytes) -> None:
    peer = Peer(timeout_s=5.0)
    peer.socket.sendall(garbage)
    peer.socket.shutdown(socket.SHUT_WR)
    assert peer.end().code in (LOST, UNLIKE)


def test_an_interrupt_is_heard_within_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices Python runs its handlers; what was begun is left, and nothing of it is written later."""
    monkeypatch.setattr(engine, "SLICE_S", 0.01)
    world = World(2, 1)
    tape = tapes_of(build("chunked-ring", 2), 100, 4, 1 << 20)[0]
    data = np.zeros(100, np.float32)
    steps = iter([engine.AGAIN, engine.AGAIN])

    class Interrupted:
        def np_go(self, *_: Any) -> int:
            code = next(steps, None)
            if code is None:
                raise KeyboardInterrupt
            return code

        def __getattr__(self, name: str) -> Any:
            return getattr(library(), name)

    world.engines[0]._library = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        world.engines[0].run(tape, data.ctypes.data, 0, 7, 20.0, adds=True)
    world.close()


@pytest.mark.parametrize(
    ("rtt_us", "least_us", "bytes_per_s", "was", "wanted"),
    [
        (300, 100, 1e9, 0, 0),  # no queue
        (1900, 100, 1e9, 0, 0),  # none worth a limit: ranks that are scheduled late look alike
        (250_000, 100_000, 1e7, 0, 0),  # far away
        (50_000, 500, 6e6, 0, 1 << 16),  # what the network holds is little: the least
        (50_000, 500, 2e8, 0, 200_000),  # twice of what it holds
        (50_000, 500, 1e9, 0, 0),  # more than any process may set
        (500, 500, 2e8, 1 << 16, 200_000),  # a limit rises when more is carried, without a queue
        (500, 500, 1e9, 1 << 16, 0),  # and ends
        (500, 500, 1e8, 80_000, 80_000),  # it stays where little changes
        (500, 500, 1e6, 200_000, 1 << 16),
        (900_000, 100_000, 1e12, 0, 0),
    ],
)
def test_a_queue_in_the_network_limits_what_is_under_way(
    rtt_us: float, least_us: float, bytes_per_s: float, was: int, wanted: int
) -> None:
    assert library().np_send_buffer(rtt_us, least_us, bytes_per_s, was) == wanted
