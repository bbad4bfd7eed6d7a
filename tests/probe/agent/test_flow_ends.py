"""Ends of what an agent's ports and servers wait for, and the reasons that they give."""

from __future__ import annotations

import errno
import os
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import greetings
from netprobe.probe.agent.collective.links import Meeting
from netprobe.probe.agent.goodput import iperf3
from netprobe.probe.agent.goodput.flow_receiver import FlowServer, Receiver
from netprobe.probe.agent.greetings import listen

TOKEN = bytes(range(16))


def test_a_silent_caller_is_closed_though_nobody_else_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greetings, "HELLO_NS", 50_000_000)
    server = FlowServer("127.0.0.1", (0, 0))
    try:
        with socket.create_connection(("127.0.0.1", server.port), 10) as silent:
            silent.settimeout(10)
            assert silent.recv(1) == b""
    finally:
        server.close()
    assert not server.thread.is_alive()


def test_a_flow_takes_its_own_streams_and_no_more() -> None:
    server = FlowServer("127.0.0.1", (0, 0))
    receiver = Receiver(TOKEN, 2, 1_000_000, 10**10)
    server.expect(receiver)
    callers = []
    try:
        for token in (bytes(16), TOKEN, TOKEN, TOKEN):
            callers.append(socket.create_connection(("127.0.0.1", server.port), 10))
            callers[-1].sendall(token)
            if token != TOKEN:
                assert callers[-1].recv(1) == b""
        assert callers[3].recv(1) == b""  # a third stream of two
        (counting,) = [one for one in threading.enumerate() if one.name == "receiver"]
        assert counting.daemon
        for caller in callers[1:3]:
            caller.sendall(b"x" * 1000)
            caller.close()
        assert receiver.done.wait(10) and receiver.marks[-1][1] == 2000
        assert server.forget(TOKEN) is receiver and server.forget(TOKEN) is None
    finally:
        for caller in callers:
            caller.close()
        server.close()


@pytest.mark.parametrize(
    ("bound", "argv"), [("10.0.0.7", "iperf3 -s -1 -p 5201 -B 10.0.0.7"), ("0.0.0.0", "iperf3 -s -1 -p 5201")]
)
def test_an_iperf3_server_is_bound_where_the_address_is_here(
    monkeypatch: pytest.MonkeyPatch, bound: str, argv: str
) -> None:
    called: list[list[str]] = []
    killed: list[int] = []

    def started(words: list[str]) -> Any:
        called.append(words)
        return SimpleNamespace(ended=False, kill=lambda: killed.append(1))

    monkeypatch.setattr(iperf3, "Child", started)
    monkeypatch.setattr(iperf3, "_free_port", lambda _address, _ports: (bound, 5201))
    monkeypatch.setattr(iperf3, "_listens", lambda _port: True)
    resources: dict[str, Any] = {}
    answer, _ = iperf3.serve({"address": "10.0.0.7", "ports": [5201, 5210]}, resources)
    assert answer == {"type": "serving", "port": 5201} and [" ".join(words) for words in called] == [argv]
    assert iperf3.stop({"port": 5201}, resources)[0] == {"type": "stopped"} and killed == [1]
    iperf3.stop({"port": 5201}, resources)
    assert killed == [1]


def test_an_iperf3_server_whose_port_was_taken_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([b"unable to bind: Address already in use", b"no such option", b"never asked"])
    killed: list[int] = []

    def started(_words: list[str]) -> Any:
        return SimpleNamespace(
            ended=True, kill=lambda: killed.append(1), read=lambda _limit, _until: next(said)
        )

    monkeypatch.setattr(iperf3, "Child", started)
    monkeypatch.setattr(iperf3, "_free_port", lambda address, _ports: (address, 5201))
    monkeypatch.setattr(iperf3, "_listens", lambda _port: False)
    with pytest.raises(OSError) as raised:
        iperf3.serve({"address": "10.0.0.7", "ports": [5201, 5210]}, {})
    assert raised.value.errno == errno.EIO and "no such option" in str(raised.value) and len(killed) == 2


@pytest.mark.parametrize(("code", "named"), [(errno.EPIPE, errno.EPIPE), (None, errno.EIO)])
def test_a_call_that_breaks_at_its_greeting_has_the_reason(code: int | None, named: int) -> None:
    class Broken:
        closed = False

        def getsockopt(self, *_arguments: Any) -> int:
            return 0

        def send(self, _data: bytes) -> int:
            raise OSError(code, "broken") if code else OSError()

        def close(self) -> None:
            self.closed = True

    meeting = Meeting(listen("127.0.0.1", (0, 0), 1), TOKEN, 0, "127.0.0.1", 1, 10**9)
    meeting.poll = SimpleNamespace(unregister=lambda _descriptor: None)  # type: ignore[assignment]
    broken = Broken()
    meeting.calling[5] = (broken, (2, 0), "10.0.0.2 port 9 (TCP)", b"hello")  # type: ignore[assignment]
    meeting._called(5)
    assert meeting.faults == [(2, f"10.0.0.2 port 9 (TCP): {os.strerror(named)}")]
    assert broken.closed and meeting.calling == {} and meeting.links == {}
    meeting.listener.close()
