"""Agents that one command starts and that dial back: real agents, a made-up engine, and strangers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.probe.agent import dial, messages
from netprobe.probe.launchers import dial_back
from netprobe.probe.launchers.bootstrap import new_payload
from netprobe.probe.launchers.dial_back import DialBackLauncher
from netprobe.probe.launchers.launch import Channel, LaunchFailure
from netprobe.probe.launchers.listen_address import ListenAt
from netprobe.probe.launchers.listener import DialListener, Invitation
from netprobe.probe.launchers.shared_process import lines_naming
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan
from tests.probe.conftest import hosts_named, is_running, wait_until

ENGINE = """
import os, subprocess, sys
plan, names, command = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
data, broken = sys.stdin.buffer.read(), set(plan.split(","))
if "all" in broken:
    sys.exit("engine: the allocation is gone")
if names[0] in broken:
    print("engine: cannot start on %s: no route" % names[0], file=sys.stderr)
    sys.exit(1)
tasks = []
for name in names:
    if name + "-mute" in broken:
        continue
    task = subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ, ENGINE_NODE=name))
    task.stdin.write(data)
    task.stdin.close()
    tasks.append(task)
for task in tasks:
    task.wait()
"""


class Engine(DialBackLauncher):
    """Starts all agents on this machine out of one process, as srun and mpirun do on theirs."""

    local = True
    variables = ("ENGINE_NODE",)

    def __init__(self, broken: str = "none") -> None:
        super().__init__(listen=ListenAt("127.0.0.1"))
        self.python = sys.executable
        self.broken = broken
        self.launched: list[list[str]] = []

    def check(self, hosts: Sequence[Host]) -> None:
        pass

    def argv(self, hosts: Sequence[Host], command: Sequence[str]) -> list[str]:
        self.launched.append([host.name for host in hosts])
        names = ",".join(host.name for host in hosts)
        return [sys.executable, "-ISc", ENGINE, self.broken, names, *command]

    def identify(self, names: Mapping[str, str], hosts: Sequence[Host]) -> Host | None:
        return next((host for host in hosts if host.name == names.get("ENGINE_NODE")), None)


def launch(
    engine: Engine, *names: str, timeout_s: float = 100, time_up_after: int | None = None
) -> tuple[list[Channel], dict[str, str]]:
    """Channels (cut again), and failures by host. The time is up once so many hosts are there, and not before."""

    async def main() -> tuple[list[Channel], dict[str, str]]:
        channels: list[Channel] = []
        failures: dict[str, str] = {}
        loop, hour_s = asyncio.get_running_loop(), 3600.0
        async for outcome in engine.launch(hosts_named(*names), new_payload(lease_s=60), timeout_s):
            if isinstance(outcome, LaunchFailure):
                failures[outcome.host.name] = outcome.reason
                continue
            channels.append(outcome)
            if len(channels) == time_up_after:
                loop.time = lambda: time.monotonic() + hour_s  # type: ignore[method-assign]
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.reap(2) for channel in channels))
        return channels, failures

    return asyncio.run(main())


def test_a_scan_over_agents_that_dial_back() -> None:
    engine = Engine()
    scan = run_scan(hosts_named("a", "b", "c"), engine, ScanOptions(probes_per_visit=10, timeout_s=10)).scan
    assert scan.status == "ok" and len(scan.visits) == 6
    assert all(visit.received == 10 for visit in scan.visits)
    assert engine.launched == [["a", "b", "c"]]


def test_no_agent_and_no_engine_is_left() -> None:
    engine = Engine()
    channels, failures = launch(engine, "a", "b")
    assert len(channels) == 2 and not failures
    child = channels[0]._shared.child  # type: ignore[attr-defined]
    assert child.returncode is not None
    assert wait_until(lambda: not agents_named(b"ENGINE_NODE=a"), 60)


def agents_named(variable: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (entry / "environ").read_bytes().split(b"\0") and is_running(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_the_secret_is_in_no_argument_and_no_environment() -> None:
    async def main() -> None:
        outcomes = Engine().launch(hosts_named("secret-a"), new_payload(lease_s=60), 60)
        async for outcome in outcomes:
            assert not isinstance(outcome, LaunchFailure), outcome.reason
            (pid,) = agents_named(b"ENGINE_NODE=secret-a")
            seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            assert seen.count(b"ENGINE_NODE") == 1
            for key in keys:
                assert key.hex().encode() not in seen and key not in seen
            outcome.kill()

    keys: list[bytes] = []
    original = Invitation.first_frame

    def spy(self: Invitation, *args: object) -> bytes:
        keys.append(self.key)
        return original(self, *args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Invitation, "first_frame", spy)
        asyncio.run(main())
    assert len(keys) == 1 and len(keys[0]) == 32


@pytest.mark.slow
def test_a_host_that_does_not_dial_back_is_unreachable_by_the_time_out() -> None:
    channels, failures = launch(Engine("b-mute"), "a", "b", "c", time_up_after=2)
    assert sorted(channel.host.name for channel in channels) == ["a", "c"]
    assert failures.keys() == {"b"} and "did not dial back" in failures["b"]


def test_the_last_line_that_names_a_host_is_its_reason_and_the_others_are_launched_again() -> None:
    engine = Engine("a")
    channels, failures = launch(engine, "a", "b", "c")
    assert engine.launched == [["a", "b", "c"], ["b", "c"]]
    assert sorted(channel.host.name for channel in channels) == ["b", "c"]
    assert failures.keys() == {"a"} and "cannot start on a: no route" in failures["a"]


def test_an_engine_that_ends_at_once_fails_every_host_at_once_with_its_last_line() -> None:
    engine = Engine("all")
    channels, failures = launch(engine, "a", "b", timeout_s=500)  # which nothing waits for
    assert not channels and len(engine.launched) == 1
    assert all("the allocation is gone" in reason for reason in failures.values()) and len(failures) == 2


def test_closing_the_launch_early_ends_what_it_started() -> None:
    async def main() -> None:
        outcomes = Engine().launch(hosts_named("early-a", "early-b"), new_payload(lease_s=60), 60)
        async for outcome in outcomes:
            assert not isinstance(outcome, LaunchFailure)
            outcome.kill()
            break
        await outcomes.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    for name in (b"ENGINE_NODE=early-a", b"ENGINE_NODE=early-b"):
        assert wait_until(lambda name=name: not agents_named(name), 60)  # type: ignore[misc]


def test_a_lost_connection_ends_the_agent() -> None:
    async def main() -> None:
        outcomes = Engine().launch(hosts_named("lost-a"), new_payload(lease_s=60), 60)
        async for outcome in outcomes:
            assert not isinstance(outcome, LaunchFailure)
            assert agents_named(b"ENGINE_NODE=lost-a")
            outcome._cut()  # type: ignore[attr-defined]
            await asyncio.to_thread(wait_until, lambda: not agents_named(b"ENGINE_NODE=lost-a"), 50)
            assert not agents_named(b"ENGINE_NODE=lost-a")
            outcome.kill()

    asyncio.run(main())


def with_listener(
    body: Callable[[DialListener, Invitation], Awaitable[None]],
    *,
    strangers: int = 8,
    handshake_s: float = 60.0,
) -> None:
    async def main() -> None:
        listener = DialListener(max_strangers=strangers, handshake_s=handshake_s)
        invitation = Invitation(identify=lambda names: hosts_named(names["hostname"])[0])
        listener.invite(invitation)
        await listener.start("127.0.0.1")
        try:
            await body(listener, invitation)
        finally:
            await listener.close()

    asyncio.run(main())


async def read_message(reader: asyncio.StreamReader) -> dict[str, object]:
    _, length = messages.parse_header(await reader.readexactly(messages.HEADER_BYTES))
    return messages.parse_json(await reader.readexactly(length))


async def knock(listener: DialListener, key: bytes, role: bytes = dial.AGENT) -> bool:
    """Shake hands as an agent with this key would; whether it was let in."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    challenge = str((await read_message(reader))["nonce"])
    nonce, names = "ab" * 16, json.dumps({"hostname": "h1"})
    shown = dial.proof(key, role, challenge, nonce, names)
    writer.write(messages.json_frame({"type": "dial", "nonce": nonce, "names": names, "proof": shown}))
    try:
        welcome = await asyncio.wait_for(read_message(reader), 60)
    except (asyncio.IncompleteReadError, OSError):
        return False
    finally:
        writer.close()
    return dial.same(str(welcome["proof"]), dial.proof(key, dial.CONTROLLER, challenge, nonce, names))


def test_only_who_knows_the_secret_is_let_in() -> None:
    async def body(listener: DialListener, invitation: Invitation) -> None:
        assert not await knock(listener, b"x" * 32)
        assert not await knock(listener, b"")
        assert not await knock(listener, invitation.key, role=dial.CONTROLLER)
        assert await knock(listener, invitation.key)
        assert invitation.arrivals.get_nowait().host.name == "h1"
        assert listener.refused == 3

    with_listener(body)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x01\0\x10\0\0" + b"{" * 4096,  # longer than a greeting may be
        messages.json_frame({"type": "dial"}),
        messages.json_frame({"type": "dial", "nonce": 5, "names": [], "proof": {"a": 1}}),
        messages.json_frame({"type": "dial", "nonce": "\ud800", "names": "é", "proof": "é"}),
        b"\x02\0\0\0\x01x",
        b"",
    ],
)
def test_a_stranger_is_dropped_soon_whatever_it_sends(data: bytes) -> None:
    async def body(listener: DialListener, invitation: Invitation) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(data)
        await read_message(reader)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 60)
        assert invitation.arrivals.empty()
        writer.close()

    with_listener(body, handshake_s=0.5)


def test_silent_strangers_keep_no_agent_out() -> None:
    async def body(listener: DialListener, invitation: Invitation) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(20)]
        assert len(listener._strangers) <= 4
        assert await knock(listener, invitation.key)
        for _, writer in silent:
            writer.close()

    with_listener(body, strangers=4, handshake_s=300)


def test_an_agent_obeys_no_controller_that_does_not_know_the_secret() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        invitation = Invitation(identify=lambda names: None)
        payload = new_payload(lease_s=5)
        stream = payload.stream(invitation.first_frame("127.0.0.1", server.getsockname()[1], 1.0))
        child = subprocess.Popen(
            payload.command(sys.executable), stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert child.stdin is not None
        child.stdin.write(stream)
        server.settimeout(60)
        connection, _ = server.accept()
        connection.sendall(messages.json_frame({"type": "challenge", "nonce": "00" * 16}))
        assert b'"dial"' in connection.recv(4096)
        connection.sendall(messages.json_frame({"type": "welcome", "proof": "00" * 32}))
        connection.sendall(payload.config())
        connection.settimeout(60)
        with contextlib.suppress(ConnectionResetError):  # it ends before it has read everything, or after
            assert connection.recv(1) == b""
        connection.close()
        server.close()
        _, said = child.communicate(timeout=60)
    assert child.returncode == 4
    assert socket.gethostname().encode() in said and b"cannot reach the controller at 127.0.0.1" in said


def test_an_address_that_is_not_here_is_one_clear_line() -> None:
    engine = Engine()
    engine.listen = ListenAt("192.0.2.77")
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.77 .*--listen"):
        launch(engine, "a")


def test_lines_are_told_apart_by_whole_names() -> None:
    lines = ["srun: error: n1: task 0: Exited", "slurmstepd-n10: error: x", "n1.site is down", "[n1:42] gone"]
    assert lines_naming(lines, ["n1"]) == [lines[0], lines[3]]
    assert lines_naming(lines, ["n10"]) == [lines[1]]


def test_at_most_three_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial_back, "LAST_CALL_S", 0.05)
    engine = Engine("a,b,c,d")
    channels, failures = launch(engine, "a", "b", "c", "d", "e")
    assert len(engine.launched) == 3 and not channels and len(failures) == 5
