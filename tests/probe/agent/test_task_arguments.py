"""What the tasks of an agent make of a message: each argument in its place, within the agent's own limits."""

from __future__ import annotations

import errno
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import main, tasks, tcp_connect
from netprobe.probe.agent.goodput import flow_sender
from netprobe.probe.agent.goodput import tasks as flow_tasks
from netprobe.probe.agent.icmp import packets as icmp_packets
from netprobe.probe.agent.icmp import sender as icmp_sender
from netprobe.probe.agent.messages import MAX_PROBES, MIN_INTERVAL_NS
from netprobe.probe.agent.path import scapy_probes
from netprobe.probe.agent.path import tasks as path_tasks
from netprobe.probe.agent.path.mtu import LEAST_MTU, MAX_SIZE, MtuSearch
from netprobe.probe.agent.path.udp_probes import TOO_BIG, Outcome, PathSocket
from netprobe.probe.agent.stamp import reply_rate
from netprobe.probe.agent.stamp.reply_rate import ReplyRate

TOKEN = bytes(range(16))
MS = 10**6
SERIES: dict[str, Any] = {
    "address": "10.0.0.2", "port": "9", "source": "10.0.0.1", "timeout_ns": "7000", "stamps": "kernel_rx",
}  # fmt: skip


class Kept:
    """In place of what a task makes: keeps what it is made of and what it is asked."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments: tuple[Any, ...] = arguments
        self.asked: list[tuple[Any, ...]] = []

    def run(self, *arguments: Any) -> tuple[Any, Any]:
        """``self`` in place of an answer."""
        self.asked.append(arguments)
        return self, None


@pytest.mark.parametrize(
    ("count", "interval", "counted", "spaced"),
    [
        ("20", 10**7, 20, 10**7),
        (MAX_PROBES + 1, MIN_INTERVAL_NS - 1, MAX_PROBES, MIN_INTERVAL_NS),
        (MAX_PROBES, MIN_INTERVAL_NS + 1, MAX_PROBES, MIN_INTERVAL_NS + 1),
    ],
)
def test_a_series_of_connects(
    monkeypatch: pytest.MonkeyPatch, count: Any, interval: int, counted: int, spaced: int
) -> None:
    monkeypatch.setattr(tcp_connect, "ConnectSeries", Kept)
    message = {**SERIES, "count": count, "interval_ns": interval}
    made: Any = tcp_connect.connect({**message, "avoid": ["4", 5]}, {})[0]
    (answered, nothing) = made.arguments, made.asked
    assert answered == (
        "10.0.0.2",
        9,
        "10.0.0.1",
        counted,
        spaced,
        7000,
        "kernel_rx",
        [4, 5],
    ) and nothing == [()]
    made = tcp_connect.connect(message, {})[0]
    assert made.arguments[-1] == []


@pytest.mark.parametrize(
    ("interval", "spaced"),
    [(MIN_INTERVAL_NS - 1, MIN_INTERVAL_NS), (MIN_INTERVAL_NS + 1, MIN_INTERVAL_NS + 1)],
)
def test_a_series_of_echoes(monkeypatch: pytest.MonkeyPatch, interval: int, spaced: int) -> None:
    monkeypatch.setattr(icmp_packets, "load", lambda: None)
    monkeypatch.setattr(icmp_sender, "echoes", lambda *asked: asked)
    monkeypatch.setattr(icmp_sender, "EchoSeries", Kept)
    resources: dict[str, Any] = {}
    for address, ipv6 in (("10.0.0.2", False), ("fd00::2", True)):
        message = {**SERIES, "address": address, "count": "30", "interval_ns": interval}
        made: Any = icmp_sender.probe(message, resources)[0]
        packets = (resources, ipv6, 30)
        assert made.arguments == (address, "10.0.0.1", packets, spaced, 7000, "kernel_rx")


@pytest.mark.parametrize(
    ("asked", "given"),
    [(("7", "90", 5 * MS), (7, 90, 5 * MS)), ((4e18, -1, 999), (flow_tasks.MAX_DURATION_NS, 0, MS)),
     ((1, 2, 0), (1, 2, 0))],
)  # fmt: skip
def test_a_flow_is_sent(
    monkeypatch: pytest.MonkeyPatch, asked: tuple[Any, ...], given: tuple[int, ...]
) -> None:
    monkeypatch.setattr(flow_tasks, "FlowSender", Kept)
    message = {
        "address": "10.0.0.2", "port": "9", "source": "10.0.0.1", "token": TOKEN.hex(), "streams": "4", "at_ns": "55",
        "duration_ns": asked[0], "bytes": asked[1], "slice_ns": asked[2],
    }  # fmt: skip
    made: Any
    made, _ = flow_tasks.send(message, {})[0]
    assert made.arguments == ("10.0.0.2", 9, "10.0.0.1", TOKEN, 4)
    duration, size, slice_ns = given
    assert made.asked == [(55, duration, size, slice_ns)]


@pytest.mark.parametrize("streams", [0, flow_tasks.MAX_STREAMS + 1, -1])
def test_a_flow_of_too_many_streams_or_none_is_refused(streams: int) -> None:
    with pytest.raises(ValueError, match="streams"):
        flow_tasks.serve({"token": TOKEN.hex(), "streams": streams}, {})
    with pytest.raises(ValueError, match="token"):
        flow_tasks.serve({"token": TOKEN.hex() + "00", "streams": 1}, {})


@pytest.mark.parametrize(
    ("ended", "came", "waits"),
    [(True, 2, [0.5]), (True, 1, [0.5]), (False, 2, [0.5, 1.0]), (False, 1, [0.5])],
)
def test_a_flow_that_came_whole_is_given_a_second_to_stop(ended: bool, came: int, waits: list[float]) -> None:
    """One whose connections are not all there is not waited for: it will never be."""
    waited: list[float] = []
    done = SimpleNamespace(wait=waited.append, is_set=lambda: ended)
    receiver = SimpleNamespace(
        done=done, close=lambda: waited.append(-1.0), socks=[None] * came, streams=2, marks=[1], reads=[2],
        cpu_ns=3, wait_ns=4, ended_ns=5,
    )  # fmt: skip
    forgotten: list[bytes] = []
    server = SimpleNamespace(expected={TOKEN: receiver}, forget=forgotten.append)
    answer, _ = flow_tasks.collect({"token": TOKEN.hex(), "wait_ns": MS * 500}, {"flows": server})
    assert waited == [waits[0], -1.0, *waits[1:]] and forgotten == [TOKEN]
    assert (answer["streams"], answer["ended"], answer["marks"], answer["reads"]) == (came, ended, [1], [2])
    assert (answer["cpu_ns"], answer["wait_ns"], answer["ended_ns"]) == (3, 4, 5)


@pytest.mark.parametrize(
    ("error", "number", "reason"),
    [(TimeoutError("timed out"), errno.ETIMEDOUT, "no answer within"),
     (OSError(errno.ECONNREFUSED, "refused"), errno.ECONNREFUSED, "refused")],
)  # fmt: skip
def test_a_connection_that_fails_names_where_and_why(error: OSError, number: int, reason: str) -> None:
    bound: list[Any] = []

    def fail(_where: object) -> None:
        raise error

    sock: Any = SimpleNamespace(bind=bound.append, settimeout=bound.append, connect=fail)
    with pytest.raises(OSError, match=reason) as raised:
        flow_sender._connect(sock, "10.0.0.2", 9, "10.0.0.1")
    assert raised.value.errno == number and "10.0.0.2 port 9" in str(raised.value)
    assert bound == [("10.0.0.1", 0), flow_sender.CONNECT_S]


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EACCES])
def test_an_address_that_is_not_this_hosts_is_left_to_the_kernel(number: int) -> None:
    went: list[Any] = []

    def fail(_where: object) -> None:
        raise OSError(number, "no")

    sock: Any = SimpleNamespace(bind=fail, settimeout=lambda _s: None, connect=went.append)
    if number == errno.EADDRNOTAVAIL:
        flow_sender._connect(sock, "10.0.0.2", 9, "10.0.0.1")
        assert went == [("10.0.0.2", 9)]
    else:
        with pytest.raises(OSError):
            flow_sender._connect(sock, "10.0.0.2", 9, "10.0.0.1")


def test_a_task_of_its_own_thread_does_not_keep_the_agent_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[tuple[object, bool]] = []
    agent = main.Agent(-1, -1)
    monkeypatch.setattr(
        agent, "_answer", lambda message: answered.append((message, threading.current_thread().daemon))
    )
    for kind in ("tcp_send", "probe"):
        assert tasks.is_threaded(kind) == (kind == "tcp_send")
        before = set(threading.enumerate())
        agent._do({"type": kind})
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
        assert answered[-1] == ({"type": kind}, kind == "tcp_send")


def test_a_sender_without_room_is_refused_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_rate, "MAX_SENDERS", 1)
    rate = ReplyRate()
    answers = [rate.allows(name, 10**12) for name in "aba"]
    assert answers == [True, False, True]
    monkeypatch.setattr(reply_rate, "_SENDER_FULL_NS", 0)
    assert rate.allows("a", 10**12) is False


@pytest.mark.parametrize("low", [0, LEAST_MTU - 1, LEAST_MTU, 1000])
@pytest.mark.parametrize("mtu", [0, LEAST_MTU - 1, LEAST_MTU, 999, 1000, 1001, 1499, 1500, 9000])
def test_a_word_about_a_size_counts_where_it_can_be_true(low: int, mtu: int) -> None:
    """An MTU is what no path has less of, no less than what fitted already, and less than what was refused."""
    search = MtuSearch(lambda _size, _patience: Outcome("silence"), 72, low, (MS, MS), 10**18)
    assert not search._heard(1500, Outcome(TOO_BIG, "10.0.0.3", mtu))
    plausible = mtu in range(LEAST_MTU, 1500) and mtu >= low
    assert (search.bound, search.low) == (mtu if plausible else MAX_SIZE, low)
    assert not search._heard(1500, Outcome("silence", None, 1400)) and search.low == low
    assert search._heard(1500, Outcome("reply")) and search.low == 1500
    assert search._heard(1400, Outcome("reply")) and search.low == 1500


@pytest.mark.parametrize("fails", [False, True])
def test_a_path_by_scapy_is_probed_from_the_same_port(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    made: list[Any] = []
    opened: list[Any] = []
    closed: list[str] = []

    def init(self: Any, *arguments: Any) -> None:
        made.append(arguments)
        self.source_port = 4242
        self.sock = SimpleNamespace(
            getsockname=lambda: ("10.0.0.1", 4242), close=lambda: closed.append("own")
        )

    def raw(_family: object, kind: int, protocol: int) -> Any:
        opened.append((kind, protocol))
        if fails and protocol == socket.IPPROTO_ICMP:
            raise OSError(errno.EPERM, "not permitted")
        return SimpleNamespace(
            setsockopt=lambda *_: None, setblocking=lambda _: None, close=lambda: closed.append(str(protocol))
        )

    monkeypatch.setattr(icmp_packets, "load", lambda: None)
    monkeypatch.setattr(PathSocket, "__init__", init)
    monkeypatch.setattr(PathSocket, "close", lambda self: self.sock.close())
    monkeypatch.setattr(socket, "socket", raw)
    where = ("10.0.0.2", 9, "10.0.0.1", TOKEN, 7)
    flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    if fails:
        with pytest.raises(OSError):
            scapy_probes.ScapyPathSocket(*where)
        assert closed == ["own", str(socket.IPPROTO_RAW)]
    else:
        path = scapy_probes.ScapyPathSocket(*where)
        assert (path.ports, path.source) == ((4242, 9), "10.0.0.1") and 0 <= path.first_ident < 1 << 16
        path.close()
        assert closed == ["own", str(socket.IPPROTO_RAW), str(socket.IPPROTO_ICMP)]
    assert made == [where] and opened == [(flags, socket.IPPROTO_RAW), (flags, socket.IPPROTO_ICMP)]


def test_a_way_is_walked_as_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Prober(Kept):
        source_port = 4242
        header_bytes = 28
        closed = 0

        def close(self) -> None:
            Prober.closed += 1

    class Way(Kept):
        sent, addresses = 3, ("10.0.0.9",)

        def begin(self) -> str | None:
            return reason

        def hops(self) -> int:
            return 2

        def mtu(self) -> int:
            return 1400

    made: list[Any] = []

    def prober(way: str) -> Any:
        def kept(*arguments: Any) -> Prober:
            made.append((way, Prober(*arguments)))
            return made[-1][1]  # type: ignore[no-any-return]

        return kept

    monkeypatch.setattr(path_tasks, "_prober", prober)
    monkeypatch.setattr(path_tasks, "Walk", Way)
    message = {
        "trace": "udp", "address": "10.0.0.2", "port": "9", "source": "10.0.0.1", "token": TOKEN.hex(),
        "ssid": (1 << 16) + 7, "timeout_ns": "5", "limit_ns": "6",
    }  # fmt: skip
    for reason in (None, "no answer"):
        answer, _ = path_tasks.trace(message, {})
        found = {"hops": 2, "addresses": ("10.0.0.9",), "mtu": 1400}
        nothing: dict[str, Any] = {"hops": 0, "addresses": [], "mtu": 0}
        expected = {"type": "path", "reason": reason, "source_port": 4242, "sent": 3}
        assert answer == {**expected, **(nothing if reason else found)}
    assert [(way, prober.arguments) for way, prober in made] == 2 * [
        ("udp", ("10.0.0.2", 9, "10.0.0.1", TOKEN, 7))
    ]
    assert Prober.closed == 2
