"""Connections among ranks, with strangers at the door."""

from __future__ import annotations

import errno
import json
import os
import resource
import selectors
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from netprobe.runtime.native import connect as module
from netprobe.runtime.native.connect import NotConnectedError, connect
from netprobe.runtime.native.lines import open_native
from netprobe.runtime.sockets import usual_address


class Store:
    """The job's store, in one process."""

    def __init__(self) -> None:
        self.said: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, text: str) -> None:
        """Say something."""
        with self._changed:
            self.said[key] = text.encode()
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        """What was said."""
        return self.said[key]

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Until all was said."""
        with self._changed:
            if not self._changed.wait_for(lambda: set(keys) <= self.said.keys(), timeout.total_seconds()):
                raise RuntimeError("wait timeout")


def open_all(store: Store, ranks: int, channels: int, timeout_s: float = 20.0, why: Any = ()) -> list[Any]:
    """Each rank's connections, or its error."""
    given = dict(why)

    def one(rank: int) -> Any:
        try:
            return connect(store, "127.0.0.1", rank, ranks, channels, timeout_s, given.get(rank, ""))
        except NotConnectedError as error:
            return error

    with ThreadPoolExecutor(ranks) as threads:
        return list(threads.map(one, range(ranks)))


def close_all(found: list[Any]) -> None:
    for own in found:
        for one in own.values():
            one.close()


def test_every_two_ranks_have_a_connection_a_channel() -> None:
    found = open_all(Store(), 4, 2)
    for rank, own in enumerate(found):
        assert set(own) == {(peer, channel) for peer in range(4) for channel in range(2) if peer != rank}
        for (peer, channel), one in own.items():
            one.setblocking(True)
            one.sendall(bytes([rank, peer, channel]))
    for rank, own in enumerate(found):
        for (peer, channel), one in own.items():
            assert one.recv(3) == bytes([peer, rank, channel])
    close_all(found)


def test_strangers_are_shown_out_and_keep_nobody_waiting() -> None:
    """One sends nothing, one the wrong word, one goes at once: while rank 1 is late."""
    store = Store()
    strangers = []

    def rank_1() -> Any:
        store.wait(["at 0"], timedelta(seconds=20))
        address, port = json.loads(store.get("at 0"))[:2]
        for said in (b"", b"x" * 40, None):
            one = socket.create_connection((address, port))
            strangers.append(one)
            if said is None:
                one.close()
            elif said:
                one.sendall(said)
        time.sleep(0.2)
        return connect(store, "127.0.0.1", 1, 2, 1, 20.0)

    with ThreadPoolExecutor(2) as threads:
        late = threads.submit(rank_1)
        own = connect(store, "127.0.0.1", 0, 2, 1, 20.0)
    own[1, 0].sendall(b"to rank 1")
    theirs = late.result()[0, 0]
    theirs.setblocking(True)
    assert theirs.recv(100) == b"to rank 1"
    strangers[1].settimeout(10)
    assert strangers[1].recv(1) == b""
    close_all([own, late.result()])


def test_where_one_rank_cannot_none_does() -> None:
    found = open_all(Store(), 3, 1, why={1: "this machine has no C compiler"})
    assert [str(error) for error in found] == ["rank 1: this machine has no C compiler"] * 3


def test_a_rank_that_is_alone_needs_no_connection() -> None:
    """Nor an address, nor a warning."""
    found, why = open_native(Store(), "", 0, 1, 2, 5.0)
    assert found is not None
    assert not why
    found.close()


def test_messages_of_another_form_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of another version of netprobe."""
    store = Store()
    store.set("at 1", json.dumps(["127.0.0.1", 1, "word", "", [2, "little"]]))
    with pytest.raises(NotConnectedError, match="rank 1: its messages are of another form"):
        connect(store, "127.0.0.1", 0, 2, 1, 5.0)


def test_an_address_that_is_not_here_and_a_rank_that_does_not_connect() -> None:
    with pytest.raises(NotConnectedError, match="cannot listen at 192.0.2.1"):
        module.Listening("192.0.2.1", 2, 1)
    store = Store()
    store.set("at 1", json.dumps(["127.0.0.1", 1, "word", "", module._FORM]))
    with pytest.raises(NotConnectedError, match=r"ranks \[1\] did not connect"):
        connect(store, "127.0.0.1", 0, 2, 1, 0.5)


def test_strangers_that_say_nothing_leave_room_for_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many: with one connection to come, and two more, four are kept."""
    monkeypatch.setattr(module, "STRANGERS", 2)
    store = Store()
    strangers: list[socket.socket] = []

    def rank_1() -> Any:
        store.wait(["at 0"], timedelta(seconds=20))
        place = tuple(json.loads(store.get("at 0"))[:2])
        strangers.extend(socket.create_connection(place) for _ in range(20))
        for one in strangers[:16]:
            one.settimeout(10)
            assert one.recv(1) == b""
        return connect(store, "127.0.0.1", 1, 2, 1, 20.0)

    with ThreadPoolExecutor(2) as threads:
        # A rank 1 that has said where it is already.
        store.set("at 1", json.dumps(["127.0.0.1", 1, "word", "", module._FORM]))
        late = threads.submit(rank_1)
        own = connect(store, "127.0.0.1", 0, 2, 1, 40.0)
    close_all([own, late.result()])
    for one in strangers:
        one.close()


def test_without_descriptors_a_stranger_goes_or_the_rank_gives_up() -> None:
    listening = module.Listening("127.0.0.1", 2, 1)
    with pytest.raises(OSError, match="Too many"), Full(listening), selectors.DefaultSelector() as watched:
        listening._let_in({}, watched, 10)
    ours, theirs = socket.socketpair()
    with Full(listening), selectors.DefaultSelector() as watched:
        watched.register(ours, selectors.EVENT_READ)
        said = {ours: b""}
        listening._let_in(said, watched, 10)
    assert not said
    assert theirs.recv(1) == b""
    theirs.close()
    listening.close()


class Full:
    """A listener of a process that has as many descriptors as it may have."""

    def __init__(self, listening: module.Listening) -> None:
        self._listening, self._listener = listening, listening._listener

    def accept(self) -> Any:
        """Never."""
        raise OSError(errno.EMFILE, "Too many open files")

    def __enter__(self) -> None:
        self._listening._listener = self  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        self._listening._listener = self._listener


def test_a_process_with_a_thousand_descriptors_connects() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("no more than a thousand descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    first = os.open(os.devnull, os.O_RDONLY)
    others = [os.dup(first) for _ in range(1100)]
    try:
        found = open_all(Store(), 2, 1)
        assert max(one.fileno() for own in found for one in own.values()) > 1023
        close_all(found)
    finally:
        for one in [first, *others]:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_address_is_that_of_most_connections() -> None:
    """Another thread of the program may open one meanwhile."""
    ends = [
        ("203.0.113.9 500", "198.51.100.1 443"),
        ("10.0.0.1 1", "10.0.0.2 1"),
        ("10.0.0.1 2", "10.0.0.3 1"),
    ]
    assert usual_address(ends) == "10.0.0.1"
    assert usual_address([("2001:db8::1 7", "2001:db8::2 7")]) == "2001:db8::1"
    assert usual_address([]) == ""
