"""Small parts of the agent, each by its values: stamps, dialling again, tasks and their limits, rates, archives."""

from __future__ import annotations

import base64
import errno
import json
import os
import socket
import struct
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import archive, dial, identity, kernel_stamps, tasks
from netprobe.probe.agent.goodput import thread_use
from netprobe.probe.agent.messages import MAX_PROBES, MIN_INTERVAL_NS
from netprobe.probe.agent.stamp import reply_rate
from netprobe.probe.agent.stamp import tasks as stamp_tasks
from netprobe.probe.agent.stamp.reply_rate import ReplyRate

MS = 10**6


def stamp(seconds: int, ns: int) -> tuple[int, int, bytes]:
    return int(socket.SOL_SOCKET), 37, struct.pack("@ll4x", seconds, ns) + bytes(28)


def error_of(number: int, origin: int = 4, ipv6: bool = False) -> tuple[int, int, bytes]:
    level = (41, 25) if ipv6 else (0, 11)
    return (*level, struct.pack("@IBBBBII", 42, origin, 0, 0, 0, 0, number))


class Queue:
    """A socket with an error queue."""

    def __init__(self, *entries: list[Any]) -> None:
        self.entries = list(entries)
        self.options: list[tuple[int, int, int]] = []
        self.refuses = 0

    def recvmsg(self, _size: int, _ancillary: int, flags: int) -> Any:
        assert flags == 0x2000 | int(socket.MSG_DONTWAIT)  # MSG_ERRQUEUE
        if not self.entries:
            raise BlockingIOError
        return b"", self.entries.pop(0), 0, None

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if value & self.refuses:
            raise OSError(errno.EPERM, "not granted")
        self.options.append((level, option, value))


def test_a_stamp_is_seconds_and_nanoseconds_of_its_own_kind() -> None:
    assert kernel_stamps.kernel_stamp([stamp(1_700_000_000, 123)]) == 1_700_000_000_000_000_123
    assert kernel_stamps.kernel_stamp([(0, 8, bytes(12)), stamp(1, 2)]) == 1_000_000_002
    assert (
        kernel_stamps.kernel_stamp([])
        == kernel_stamps.kernel_stamp([(int(socket.SOL_SOCKET), 37, bytes(15))])
        == 0
    )
    assert (
        kernel_stamps.kernel_stamp([(int(socket.SOL_SOCKET), 29, struct.pack("@ll", 1, 2))]) == 0
    )  # SO_TIMESTAMP
    assert kernel_stamps.kernel_stamp([(0, 37, struct.pack("@ll", 1, 2))]) == 0


def test_a_departure_has_the_number_of_its_send() -> None:
    queue = Queue(
        [error_of(3, origin=2)],
        [error_of(4)],
        [stamp(5, 6), error_of(7)],
        [stamp(8, 9), error_of(10, ipv6=True)],
    )
    # An ICMP error and an entry without a stamp are skipped.
    assert kernel_stamps.read_transmit_stamp(queue) == (7, 5_000_000_006)  # type: ignore[arg-type]
    assert kernel_stamps.read_transmit_stamp(queue) == (10, 8_000_000_009)  # type: ignore[arg-type]
    assert kernel_stamps.read_transmit_stamp(queue) is None  # type: ignore[arg-type]
    assert kernel_stamps.read_transmit_stamp(Queue([stamp(5, 6), error_of(7, origin=2)])) is None  # type: ignore[arg-type]


def test_the_best_level_that_the_kernel_grants() -> None:
    # linux/net_tstamp.h: TX_SOFTWARE 2, RX_SOFTWARE 8, SOFTWARE 16, OPT_ID 128, OPT_TSONLY 2048
    full, receipt = 2 | 8 | 16 | 128 | 2048, 8 | 16
    for refuses, best, level, flags in (
        (0, "kernel", "kernel", full), (2, "kernel", "kernel_rx", receipt), (8, "kernel", "user", None),
        (0, "kernel_rx", "kernel_rx", receipt), (0, "user", "user", None),
    ):  # fmt: skip
        queue = Queue()
        queue.refuses = refuses
        assert kernel_stamps.enable(queue, best) == level  # type: ignore[arg-type]
        assert (flags is None) == (level == "user")
        if flags is not None:  # the counter begins again, then the flags
            assert queue.options[-2:] == [(socket.SOL_SOCKET, 37, 0), (socket.SOL_SOCKET, 37, flags)]
        if best == "user":
            assert queue.options == []


def test_a_hop_limit_is_that_of_its_kind() -> None:
    told = struct.pack("@i", 63)
    assert kernel_stamps.hop_limit([(0, 2, told)]) == kernel_stamps.hop_limit([(41, 52, told)]) == 63
    assert kernel_stamps.hop_limit([(0, 8, told)]) == kernel_stamps.hop_limit([]) == 0


@pytest.mark.parametrize(("address", "level", "option"), [("127.0.0.1", 0, 2), ("::1", 41, 16)])
def test_probes_have_the_largest_time_to_live(address: str, level: int, option: int) -> None:
    try:
        sock = kernel_stamps.udp_socket(address)
    except OSError:
        pytest.skip("no such family here")
    assert sock.getsockopt(level, option) == 255  # RFC 8762, section 4.2
    assert sock.family == (socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.close()


def test_replies_are_bounded_for_each_sender_and_for_all() -> None:
    rate = ReplyRate()
    now = 10**12
    burst = reply_rate.SENDER_BURST
    assert all(rate.allows("a", now) for _ in range(burst)) and not rate.allows("a", now)
    assert rate.allows("b", now) and rate.refused == 1
    spacing = 10**9 // reply_rate.SENDER_PER_S
    assert not rate.allows("a", now + spacing - 1) and rate.allows("a", now + spacing)
    assert not rate.allows("a", now + spacing)
    rate = ReplyRate()
    most = reply_rate.ALL_BURST
    passed = sum(rate.allows(f"host {number % 100}", now) for number in range(most + 300))
    assert passed == most and rate.refused == 300
    assert rate.allows("host 7", now + 10**9 // reply_rate.ALL_PER_S)


def test_no_more_senders_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_rate, "MAX_SENDERS", 3)
    rate, now = ReplyRate(), 10**12
    assert all(rate.allows(name, now) for name in "abc")
    assert not rate.allows("d", now) and rate.refused == 1 and rate.allows("a", now)
    later = now + 10**9  # all are long done
    assert rate.allows("d", later) and set(rate.of) == {"d"}


class Dialled(Exception):
    """The agent would have ended."""


def test_dialling_is_tried_again_with_growing_waits_until_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(now=100.0, slept=[])
    clock.monotonic = lambda: clock.now

    def sleep(seconds: float) -> None:
        clock.slept.append(seconds)
        clock.now += seconds

    def refused(_where: Any, timeout: float) -> None:
        assert timeout == dial.TRY_S
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    def ends(code: int) -> None:
        raise Dialled(code)

    clock.sleep = sleep
    alarms: list[float] = []
    monkeypatch.setattr(dial, "time", clock)
    monkeypatch.setattr(
        "netprobe.probe.agent.dial.signal.setitimer", lambda _which, seconds: alarms.append(seconds)
    )
    monkeypatch.setattr("netprobe.probe.agent.dial.socket.create_connection", refused)
    monkeypatch.setattr("netprobe.probe.agent.dial.os._exit", ends)
    config = {"variables": [], "timeout_s": 20, "address": "10.0.0.9", "port": 7, "key": "00" * 32}
    for jitter, factor in ((b"\0", 0.5), (b"\xff", 1.5)):
        clock.now, clock.slept = 100.0, []
        monkeypatch.setattr("netprobe.probe.agent.dial.os.urandom", lambda _count, jitter=jitter: jitter)
        with pytest.raises(Dialled) as ended:
            dial.dial(config)
        assert ended.value.args == (4,)
        waits = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
        assert clock.slept[:7] == pytest.approx([factor * wait for wait in waits])
        assert sum(clock.slept) == pytest.approx(20) and max(clock.slept) <= 2 * factor + 1e-9
        said = capsys.readouterr().err
        assert "10.0.0.9 port 7: Connection refused" in said
    assert alarms == [25.0, 25.0]  # it does not hang beyond a try more


def test_a_host_says_its_name_and_what_its_launcher_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NODEID", "x" * 300)
    monkeypatch.delenv("PMIX_RANK", raising=False)
    name = os.uname().nodename
    said = json.loads(dial.names_of(["SLURM_NODEID", "PMIX_RANK"]))
    assert said == {"SLURM_NODEID": "x" * 255, "hostname": name}


def test_a_proof_is_of_the_role_the_nonces_and_the_names() -> None:
    key = bytes(32)
    one = dial.proof(key, dial.AGENT, "aa", "bb", "{}")
    assert one == dial.proof(key, dial.AGENT, "aa", "bb", "{}") and len(one) == 64
    others = {
        dial.proof(bytes(31) + b"\1", dial.AGENT, "aa", "bb", "{}"),
        dial.proof(key, dial.CONTROLLER, "aa", "bb", "{}"),
        dial.proof(key, dial.AGENT, "bb", "aa", "{}"),
        dial.proof(key, dial.AGENT, "aa", "bb", "{ }"),
    }
    assert len(others) == 4 and one not in others
    assert dial.same(one, one) and not any(dial.same(one, other) for other in others)


def test_tasks_that_wait_long_have_threads_and_every_task_is_there() -> None:
    assert tasks.is_threaded("tcp_send") and tasks.is_threaded("fping") and not tasks.is_threaded("probe")
    # A child's end of its parent is that of the thread that started it: the main one has to start servers.
    assert not tasks.is_threaded("iperf_serve") and set(tasks.TASKS) >= tasks.THREADED
    assert all(callable(tasks.find(kind)) for kind in tasks.TASKS)
    with pytest.raises(ValueError):
        tasks.find("nonsense")


def test_a_series_is_bounded_whatever_the_controller_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []

    class Fake:
        def __init__(self, *arguments: Any) -> None:
            taken.append(arguments)

        def run(self) -> dict[str, Any]:
            return {"samples": [1], "sent": 3}

    monkeypatch.setattr(stamp_tasks, "Series", Fake)
    message: dict[str, Any] = {
        "address": "10.0.0.2", "port": "9", "source": "10.0.0.1", "token": "ab" * 16, "ssid": 70_000,
        "count": 10**9, "interval_ns": 1, "timeout_ns": 5 * MS, "stamps": "kernel_rx",
    }  # fmt: skip
    assert stamp_tasks.probe(message, {}) == ({"type": "done", "sent": 3}, [1])
    address, port, source, token, ssid, probing, avoid = taken[0]
    assert (address, port, source, token) == ("10.0.0.2", 9, "10.0.0.1", b"\xab" * 16)
    assert (ssid, avoid) == (70_000 - 65_536, [])
    assert (probing.count, probing.interval_ns, probing.best) == (MAX_PROBES, MIN_INTERVAL_NS, "kernel_rx")
    assert (probing.timeout_ns, probing.patience_ns, probing.precision_ns) == (5 * MS, 5 * MS, 0)
    more = {"patience_ns": 2 * MS, "precision_ns": 2000, "avoid": ["7", 8], "count": 20, "interval_ns": 10**7}
    stamp_tasks.probe({**message, **more}, {})
    probing, avoid = taken[1][5:]
    assert (probing.patience_ns, probing.precision_ns, avoid) == (2 * MS, 2000, [7, 8])
    assert (probing.count, probing.interval_ns) == (20, 10**7)


def test_the_reflectors_port_is_opened_anew_for_each_token() -> None:
    resources: dict[str, Any] = {}
    message = {"token": "ab" * 16, "address": "127.0.0.1", "ports": [0, 0], "stamps": "user"}
    answer, _ = stamp_tasks.open_port(message, resources)
    first = resources["reflector"]
    assert answer == {"type": "opened", "address": "127.0.0.1", "port": first.port, "stamps": "user"}
    again, _ = stamp_tasks.open_port(message, resources)
    assert first.closed and again["port"] == resources["reflector"].port
    resources["reflector"].close()
    with pytest.raises(ValueError):
        stamp_tasks.open_port({**message, "token": "ab" * 15}, {})


def test_an_archive_is_put_together_and_imported_from_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["first"])
    monkeypatch.setattr(archive, "MAX_BYTES", 10)
    resources: dict[str, Any] = {}

    def take(data: bytes, last: bool) -> Any:
        message = {"name": "x", "data": base64.b64encode(data).decode(), "last": last}
        return archive.take(message, resources)[0]

    assert take(b"abcd", False) == {"type": "taken", "bytes": 4} and sys.path == ["first"]
    assert take(b"efghij", True) == {"type": "taken", "bytes": 10}
    descriptor = resources["archive x"][0]
    assert sys.path == ["first", f"/proc/self/fd/{descriptor}"]
    with open(f"/proc/self/fd/{descriptor}", "rb") as stream:
        assert stream.read() == b"abcdefghij"
    with pytest.raises(ValueError):
        take(b"k", True)
    os.close(descriptor)


def test_a_host_is_identified_by_its_boot_and_its_network() -> None:
    found = identity.read_identity()
    with open("/proc/sys/kernel/random/boot_id") as stream:
        assert found["boot_id"] == stream.read().strip()
    assert found["netns"] == str(os.stat("/proc/self/ns/net").st_ino)


def test_a_threads_time_is_what_it_ran() -> None:
    before = thread_use.thread_use()
    sum(range(300_000))
    after = thread_use.thread_use()
    with open("/proc/thread-self/schedstat") as stream:
        waited = int(stream.read().split()[1])
    assert after[0] > before[0] and before[1] <= after[1] <= waited
