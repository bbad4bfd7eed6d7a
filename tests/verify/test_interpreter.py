"""The agents' interpreter over real sockets of this machine: every algorithm, and false peers."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.agent.collective import run as interpreting
from netprobe.probe.agent.collective import tasks as collective
from netprobe.probe.agent.collective.links import HELLO, Meeting
from netprobe.probe.agent.collective.program import MAX_ACTIONS, RankProgram
from netprobe.probe.agent.collective.run import BARRIER, DATA, HEADER, CollectiveError, Interpreter
from netprobe.probe.agent.greetings import listen
from netprobe.verify.wire import chunk_sizes
from tests.properties import examples

HERE = "127.0.0.1"
SIZE = 100_003
LIMIT_NS = 60 * 10**9


class Fleet:
    """Members in threads of this process, connected each with each."""

    def __init__(self, members: int, channels: int = 1) -> None:
        tokens = [secrets.token_bytes(16) for _ in range(members)]
        listeners = [listen(HERE, (0, 0), 8) for _ in range(members)]
        ports = [sock.getsockname()[1] for sock in listeners]
        meetings = [Meeting(listeners[i], tokens[i], i, HERE, channels, LIMIT_NS) for i in range(members)]

        def meet(i: int) -> None:
            dial = [[j, HERE, ports[j], tokens[j].hex()] for j in range(i)]
            meetings[i].run(dial, list(range(i + 1, members)))
            assert meetings[i].faults == []

        in_threads([lambda i=i: meet(i) for i in range(members)])  # type: ignore[misc]
        self.members = [Interpreter(one.links, i, members) for i, one in enumerate(meetings)]

    def run(self, schedule: Schedule, orders: list[list[int]], sequence: list[int]) -> list[list[int]]:
        """Times of each member, repetition after repetition."""
        durations: list[list[int]] = [[] for _ in self.members]

        def one(place: int) -> None:
            own = [loaded(schedule, number, order, place) for number, order in enumerate(orders)]
            until = time.monotonic_ns() + LIMIT_NS
            self.members[place].run([own[number] for number in sequence], durations[place], until)

        in_threads([lambda place=place: one(place) for place in range(len(self.members))])  # type: ignore[misc]
        return durations

    def close(self) -> None:
        for member in self.members:
            member.close()


def loaded(schedule: Schedule, number: int, order: list[int], place: int, size: int = SIZE) -> RankProgram:
    """A member's part, as an agent holds it."""
    rank = order.index(place)
    owed = [(first, last, whole) for who, first, last, whole in schedule.contract.owed() if who == rank]
    own = RankProgram(number, rank, schedule.ranks, chunk_sizes(schedule, size), owed)
    actions = compile_schedule(schedule).actions(rank)
    own.add([[*a[:3], order[a.peer] if a.peer >= 0 else -1, *a[4:7]] for a in actions])
    return own


def in_threads(works: list[Callable[[], None]]) -> None:
    """All at once; the first error is raised here."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.slow
@pytest.mark.parametrize(("members", "channels"), [(1, 1), (2, 1), (3, 2), (7, 1), (8, 3)])
def test_every_algorithm_runs_in_any_order_and_proves_itself(members: int, channels: int) -> None:
    fleet = Fleet(members, channels)
    try:
        straight, turned = list(range(members)), list(range(members))[::-1]
        for name in ALGORITHMS:
            schedule = build(name, members, channels)
            before = [(one.sent_bytes, one.received_bytes) for one in fleet.members]
            durations = fleet.run(schedule, [straight, turned], [0, 1, 1, 0])
            assert all(len(own) == 4 and min(own) > 0 for own in durations)
            after = [(one.sent_bytes, one.received_bytes) for one in fleet.members]
            sent = sum(a[0] - b[0] for a, b in zip(after, before, strict=True))
            received = sum(a[1] - b[1] for a, b in zip(after, before, strict=True))
            assert sent == received == 4 * schedule.sent_bytes(SIZE)
    finally:
        fleet.close()


def test_one_that_is_gone_ends_the_others_with_its_place() -> None:
    fleet = Fleet(4)
    schedule = build("chunked-ring", 4)
    fleet.members[2].close()
    with pytest.raises(CollectiveError) as caught:
        fleet.run(schedule, [[0, 1, 2, 3]], [0])
    assert caught.value.peer is not None or "descriptor" in str(caught.value)
    fleet.close()


@pytest.fixture
def alone() -> Iterator[tuple[Interpreter, socket.socket]]:
    """A member of two, and the bare end of its connection to the other."""
    mine, theirs = socket.socketpair()
    from netprobe.probe.agent.collective.links import Link

    one = Interpreter({(1, 0): Link(mine, 1, 0)}, 0, 2)
    yield one, theirs
    one.close()
    theirs.close()


def barrier(repetition: int = 1) -> bytes:
    return HEADER.pack(BARRIER, 1, repetition, 0, 0, 0, 0) + b"\0"


def data(parts: int = 2, **other: int) -> bytes:
    """What rank 1 of two sends first in a ring of 2 bytes: chunk 1."""
    fields = {"mask": 1, "repetition": 1, "number": 0, "first": 1, "last": 2, "payload": 1} | other
    return HEADER.pack(DATA, *fields.values()) + bytes([parts]) + b"x" * min(fields["payload"], 10)


def run_alone(one: Interpreter, limit_s: float = 20.0) -> None:
    own = loaded(build("chunked-ring", 2), 0, [0, 1], 0, 2)
    one.run([own], [], time.monotonic_ns() + round(limit_s * 1e9))


def test_a_peer_that_does_as_it_should_is_believed(alone: tuple[Interpreter, socket.socket]) -> None:
    one, peer = alone
    peer.sendall(barrier() + data() + data(parts=3, first=0, last=1))
    run_alone(one)
    assert one.received_bytes == one.sent_bytes == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\0" * 40, "an invalid message"),
        (b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n", "an invalid message"),
        (barrier(7), "a barrier that nobody is at"),
        (barrier() + barrier(), "a barrier that nobody is at"),
        (barrier() + data(repetition=2), "another repetition"),
        (barrier() + data(payload=1 << 60), "another message than the one that is due"),
        (barrier() + data(first=0, last=1), "another message than the one that is due"),
        (barrier() + data(number=5), "another message than the one that is due"),
        (barrier() + data(mask=9), "an invalid message"),
        (barrier() + data(parts=0), "ranks that there are not"),
        (barrier() + data(parts=8), "ranks that there are not"),
        (barrier() + data(parts=1), "part of rank 0 twice"),
        (barrier() + data() + data(parts=2, first=0, last=1), "chunk 0 lacks the part of rank 0"),
        (barrier() + data() + data(first=0, last=1, parts=3) + data(), "nobody waits for"),
        (barrier() + data()[:-3], "its connection ended"),
        (b"", "its connection ended"),
    ],
)
def test_a_peer_that_says_anything_else_ends_the_run(
    alone: tuple[Interpreter, socket.socket], said: bytes, why: str
) -> None:
    one, peer = alone
    peer.sendall(said)
    peer.shutdown(socket.SHUT_WR)
    with pytest.raises(CollectiveError, match=why):
        run_alone(one)
        run_alone(one)


@examples(60)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_of_a_peer_break_the_interpreter(noise: bytes, after_barrier: bool) -> None:
    from netprobe.probe.agent.collective.links import Link

    mine, theirs = socket.socketpair()
    one = Interpreter({(1, 0): Link(mine, 1, 0)}, 0, 2)
    with theirs, contextlib.closing(one):
        theirs.sendall((barrier() if after_barrier else b"") + noise)
        theirs.shutdown(socket.SHUT_WR)
        # Not even by chance is it a part with its contributors: one line tells of it, and nothing else is raised.
        with pytest.raises(CollectiveError) as caught:
            run_alone(one)
        assert str(caught.value) and "\n" not in str(caught.value)


class WhenIdle:
    """A poll object whose clock goes on where nothing is left to do: what can be done is done on any machine."""

    def __init__(self, real: Any) -> None:
        self.real, self.now = real, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def poll(self, _limit_ms: int) -> Any:
        found = self.real.poll(0)
        self.now += not found
        return found


def test_a_silent_peer_costs_the_limit_and_no_more(
    alone: tuple[Interpreter, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, peer = alone
    idle: Any = WhenIdle(one.poll)
    one.poll = idle
    monkeypatch.setattr(interpreting, "time", SimpleNamespace(monotonic_ns=lambda: idle.now))
    own = loaded(build("chunked-ring", 2), 0, [0, 1], 0, 2)
    with pytest.raises(CollectiveError, match="not all members came to the barrier"):
        one.run([own], [], 5)
    assert idle.now == 6
    one.repetition = 0
    peer.sendall(barrier())
    with pytest.raises(CollectiveError, match="4 of 6 actions"):
        one.run([own], [], 10)
    assert idle.now == 11


def test_strangers_get_nothing_and_cost_nothing() -> None:
    token = secrets.token_bytes(16)
    listener = listen(HERE, (0, 0), 8)
    port = listener.getsockname()[1]
    meeting = Meeting(listener, token, 0, HERE, 1, LIMIT_NS)
    running = threading.Thread(target=meeting.run, args=([], [1]), daemon=True)
    running.start()
    hellos = (
        b"GET / HTTP/1.0\r\n\r\n\r\n\r\n",
        HELLO.pack(b"\0" * 16, 1, 0),  # a wrong token
        HELLO.pack(token, 2, 0),  # a member that is not expected
        HELLO.pack(token, 1, 1),  # a channel that there is not
        b"half",
    )
    for hello in hellos:
        with socket.create_connection((HERE, port), timeout=30) as stranger:
            stranger.sendall(hello)
            if hello == b"half":
                stranger.shutdown(socket.SHUT_WR)
            said = b""
            with contextlib.suppress(ConnectionResetError):
                said = stranger.recv(100)
            assert said == b""
    silent = socket.create_connection((HERE, port), timeout=30)  # closed after two seconds
    with socket.create_connection((HERE, port), timeout=30) as right:
        right.sendall(HELLO.pack(token, 1, 0))
        running.join(30)
        assert not running.is_alive() and list(meeting.links) == [(1, 0)] and meeting.faults == []
        with pytest.raises(ConnectionRefusedError):  # the port is gone once all are there
            socket.create_connection((HERE, port), timeout=30)
    silent.close()
    meeting.links[1, 0].sock.close()


def test_peers_that_are_not_there_are_named() -> None:
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        port = taken.getsockname()[1]
        meeting = Meeting(listen(HERE, (0, 0), 8), b"t" * 16, 0, HERE, 1, LIMIT_NS)
        meeting.run([[3, HERE, port, "00" * 16]], [1])
    assert meeting.faults == [(3, f"{HERE} port {port} (TCP): Connection refused")]
    late = Meeting(listen(HERE, (0, 0), 8), b"t" * 16, 0, HERE, 1, 1)
    late.run([], [1])
    assert late.faults == [(1, "it did not connect")]


def test_the_tasks_refuse_what_they_cannot_do() -> None:
    resources: dict[str, Any] = {}
    opening = {"token": "00" * 16, "address": HERE, "ports": [0, 0]}
    with pytest.raises(ValueError, match="no collective is open"):
        collective.load({"program": 0, "rows": []}, resources)
    with pytest.raises(ValueError, match="a token of 2 bytes"):
        collective.open_port(opening | {"token": "0000"}, resources)
    collective.open_port(opening, resources)
    program = {"program": 0, "rank": 0, "ranks": 2, "sizes": [[2, 5]], "owed": [[0, 2, "3"]]}
    for change, text in (
        ({"rank": 2}, "rank 2 of 2"),
        ({"sizes": []}, "no chunk"),
        ({"sizes": [[0, 5]]}, "0 chunks of 5 bytes"),
        ({"sizes": [[1 << 16, 5], [1, 5]]}, "1 chunks of 5 bytes, after 65536"),
        ({"sizes": [[1, 1 << 50]]}, "bytes"),
        ({"sizes": [[2, 1 << 40]]}, "bytes"),
        ({"owed": [[0, 3, "3"]]}, "chunks 0 to 3"),
        ({"owed": [[0, 2, "7"]]}, "the parts 7"),
    ):
        with pytest.raises(ValueError, match=text):
            collective.load(program | change | {"rows": []}, resources)
    for row in (
        [4, 0, 1, -1, 0, 0, []],
        [0, 1, 1, -1, 0, 0, []],
        [0, 0, 3, -1, 0, 0, []],
        [0, 0, 1, -1, 0, 0, [0]],
    ):
        with pytest.raises(ValueError, match="action 0"):
            collective.load(program | {"rows": [row]}, resources)
    with pytest.raises(ValueError, match="no connections"):
        collective.run({"sequence": [0], "limit_ns": 10**9}, resources)
    with pytest.raises(ValueError, match="member 3 of 2"):
        collective.connect({"place": 3, "members": 2, "channels": 1}, resources)
    assert collective.close({}, resources)[0] == {"type": "closed"} and not resources
    assert MAX_ACTIONS * struct.calcsize("q") < 15 << 20  # the list of an agent is small compared with it
