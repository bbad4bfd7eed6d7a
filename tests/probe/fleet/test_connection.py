"""The controller's end of an agent, against agents that are old, hostile, hung or gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from netprobe.core.hosts import make_host
from netprobe.probe.agent import messages
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import MAX_STRAYS, AgentLostError, Connection, TaskFailedError
from netprobe.probe.launchers.launch import MAX_NOISE_BYTES, NoiseError, skip_to_marker
from netprobe.probe.methods.series import checked_answer

HELLO = {"type": "hello", "protocol": messages.PROTOCOL, "addresses": [], "pid": 1}
MARKER = messages.marker("ab" * 16)


class FakeChannel:
    """A channel whose far end is the test."""

    def __init__(self) -> None:
        self.host = make_host("h1")
        self.reader = asyncio.StreamReader()
        self.written = b""
        self.killed = False
        self.queued = 0

    def write(self, data: bytes) -> None:
        self.written += data

    def queued_bytes(self) -> int:
        return self.queued

    def diagnosis(self) -> str | None:
        return "its last words"

    def close(self) -> None:
        self.reader.feed_eof()

    async def reap(self, grace_s: float) -> None:
        pass

    def kill(self) -> None:
        self.killed = True


def with_connection(
    body: Callable[[Connection, FakeChannel, list[str]], Awaitable[None]],
    first: bytes | None = None,
    silence_s: float = 5.0,
) -> None:
    """Run ``body`` on a connection whose agent has said ``first`` (a hello)."""

    async def main() -> None:
        channel, lost = FakeChannel(), []  # type: FakeChannel, list[str]
        connection = Connection(channel, lease_s=10, silence_s=silence_s)
        channel.reader.feed_data(messages.json_frame(HELLO) if first is None else first)
        await connection.start(0.5, lost.append)
        try:
            await body(connection, channel, lost)
        finally:
            await connection.stop()

    asyncio.run(main())


async def nothing(_connection: Connection, _channel: FakeChannel, _lost: list[str]) -> None:
    return None


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (
            messages.json_frame({**HELLO, "protocol": 1}),
            "version 1 of the protocol and this netprobe version 3",
        ),
        (messages.json_frame({"type": "pong"}), "hello is needed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unknown kind 72"),
        (b"\x01\x7f\xff\xff\xff", "at most"),
        (messages.samples_frame(1, []), "not a message"),
        (messages.json_frame({**HELLO, "addresses": [3]}), "an invalid address"),
        (messages.json_frame({**HELLO, "pid": -1}), "pid"),
        (b"\x01\0\0", "did not say hello within"),
    ],
)
def test_an_agent_that_is_none_is_refused_with_one_line(first: bytes, reason: str) -> None:
    with pytest.raises(AgentLostError, match=reason) as caught:
        with_connection(nothing, first)
    assert "\n" not in str(caught.value)


def test_answers_find_their_requests() -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        one = asyncio.create_task(connection.request({"type": "probe", "count": 1}, 5))
        two = asyncio.create_task(connection.request({"type": "probe"}, 5))
        await asyncio.sleep(0)
        channel.reader.feed_data(
            messages.samples_frame(1, [(1, 2, 3)])
            + messages.json_frame({"type": "failed", "id": 2, "code": "permission", "reason": "no\nroute"})
            + messages.json_frame({"type": "done", "id": 1})
        )
        assert (await one)["samples"].tolist() == [[1, 2, 3]]
        with pytest.raises(TaskFailedError, match="^no.route$"):
            await two
        assert not lost

    with_connection(body)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff" * 64, "the agent sent frame of unknown kind"),
        (messages.json_frame({"type": "done", "id": "x"}), "whose id is 'x'"),
        (messages.json_frame({"type": "done", "id": True}), "whose id is"),
        (b"\x01\0\0\0\x02{}", "not a message"),
        (b"\x02\0\0\0\x09123456789", "samples frame"),
    ],
)
def test_nonsense_from_an_agent_ends_it_with_its_reason(data: bytes, reason: str) -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        request = asyncio.create_task(connection.request({"type": "probe"}, 5))
        await asyncio.sleep(0)
        channel.reader.feed_data(data)
        with pytest.raises(AgentLostError, match=reason):
            await request
        assert channel.killed and len(lost) == 1
        with pytest.raises(AgentLostError):
            await connection.request({"type": "probe"}, 5)

    with_connection(body)


def test_answers_to_nothing_and_late_samples_are_dropped() -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        channel.reader.feed_data(
            messages.samples_frame(77, [(1, 2, 3)] * 1000) + messages.json_frame({"type": "done", "id": 77})
        )
        with pytest.raises(TimeoutError):
            await connection.request({"type": "probe"}, 0.05)
        assert not connection._waiting and not lost

    with_connection(body)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([(1, 0, 5), (2, 0, 5), (3, 0, 5)], "more samples than the 2 it was requested to send"),
        ([(1, 0, -5)], "a sample that cannot be"),
        ([(1, -1, 5)], "a sample that cannot be"),
        ([(1, 0, 6 * 10**9)], "a sample that cannot be"),  # longer than the request itself
    ],
)
@pytest.mark.parametrize("done", [b"", messages.json_frame({"type": "done", "id": 1})])
def test_samples_that_cannot_be_end_an_agent(
    samples: list[tuple[int, int, int]], reason: str, done: bytes
) -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        request = asyncio.create_task(connection.request({"type": "probe", "count": 2}, 5))
        await asyncio.sleep(0)
        channel.reader.feed_data(messages.samples_frame(1, samples) + done)
        with pytest.raises(AgentLostError, match=reason):
            await request

    with_connection(body)


def test_a_flood_of_messages_that_nobody_asked_for_ends_an_agent() -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        pong = messages.json_frame({"type": "pong"})
        channel.reader.feed_data(pong * MAX_STRAYS)
        with pytest.raises(TimeoutError):
            await connection.request({"type": "probe"}, 0.05)
        channel.reader.feed_data(messages.samples_frame(77, []) * 64)
        with pytest.raises(AgentLostError, match="more messages than it was requested to send"):
            await connection.request({"type": "probe"}, 5)

    with_connection(body)


def test_the_end_of_an_agent_fails_what_waits_with_its_last_words() -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        request = asyncio.create_task(connection.request({"type": "probe"}, 5))
        await asyncio.sleep(0)
        channel.close()
        with pytest.raises(AgentLostError, match=r"the agent ended \(its last words\)"):
            await request

    with_connection(body)


def test_a_silent_agent_is_given_up() -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        with pytest.raises(AgentLostError, match="hangs: it has not answered for"):
            await connection.request({"type": "probe"}, 5)
        assert channel.written.count(b'"ping"') >= 2

    with_connection(body, silence_s=0.4)


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while something is to be done, and jumps to the next timer."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def test_a_silent_agent_is_given_up_when_it_counts_as_hung_and_no_ping_later() -> None:
    """It answers one ping, 0.3 s after it was sent; where looks are as rare as pings it is given up a quarter late."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        channel = FakeChannel()
        connection = Connection(channel, lease_s=10, silence_s=5)
        channel.reader.feed_data(messages.json_frame(HELLO))
        await connection.start(0.5, lambda _reason: None)
        loop.call_at(1.55, channel.reader.feed_data, messages.json_frame({"type": "pong", "id": 0}))
        try:
            with pytest.raises(AgentLostError, match="hangs: it has not answered for 5.0 s"):
                await connection.request({"type": "probe"}, 60)
            return loop.time()
        finally:
            await connection.stop()

    loop = JumpingLoop()
    try:
        assert loop.run_until_complete(main()) == pytest.approx(1.55 + 5.0, abs=0.1)
    finally:
        loop.close()


def test_an_agent_that_reads_nothing_is_given_up() -> None:
    async def body(connection: Connection, channel: FakeChannel, lost: list[str]) -> None:
        channel.queued = 1 << 30
        with pytest.raises(AgentLostError, match="does not read its input"):
            await connection.request({"type": "probe"}, 5)

    with_connection(body, silence_s=0.4)


def answer(**fields: Any) -> dict[str, Any]:
    good = {
        "type": "done", "sent": 5, "received": 4, "duplicates": 0, "rejected": 0, "unsent": 0, "source_port": 4000,
        "stamps": "kernel",
        "samples": [(1, 0, 1000), (2, 10, 1000)],
    }  # fmt: skip
    return {**good, **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "opened"},
        {"sent": 101},
        {"sent": 5.0},
        {"received": 6},
        {"received": -1},
        {"received": 1},
        {"rejected": 5},
        {"stamps": "hardware"},
        {"samples": [(0, 0, 1)]},
        {"samples": [(2, 0, 1), (1, 0, 1)]},
        {"samples": [(101, 0, 1)]},
        {"samples": [(1, 0, 0)]},
        {"duplicates": "many"},
    ],
)
def test_a_result_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    assert checked_answer(answer(), 100)["samples"].rtt.tolist() == [1000, 1000]
    with pytest.raises(ProtocolError):
        checked_answer(answer(**fields), 100)


@pytest.mark.parametrize(
    "noise", [b"", b"Welcome {friend}\n", b"no line break", b"\n\n", b"netprobe-agent cafe\n", b"\xff" * 5000]
)
def test_what_a_login_shell_prints_is_skipped(noise: bytes) -> None:
    async def main() -> None:
        reader = asyncio.StreamReader(limit=1024)
        reader.feed_data(noise + MARKER + b"rest")
        assert await skip_to_marker(reader, MARKER) == noise
        assert await reader.readexactly(4) == b"rest"

    asyncio.run(main())


def test_endless_noise_and_an_early_end_are_told() -> None:
    async def main(noise: bytes) -> None:
        reader = asyncio.StreamReader(limit=1024)
        reader.feed_data(noise)
        reader.feed_eof()
        await skip_to_marker(reader, MARKER)

    with pytest.raises(NoiseError, match="printed more than"):
        asyncio.run(main(b"y" * (MAX_NOISE_BYTES + 5000)))
    with pytest.raises(NoiseError, match="ended before") as caught:
        asyncio.run(main(b"sh: no such thing"))
    assert b"no such thing" in caught.value.noise
