"""Frames and messages, and bytes that are neither."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent import messages
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.fleet.connection import parse_hello, read_frame

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
samples = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    max_size=50,
)


def frames_of(data: bytes, step: int) -> list[tuple[int, bytes]]:
    stream = io.BytesIO(data)
    return list(messages.read_frames(lambda count: stream.read(min(count, step))))


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=6), st.integers(1, 40))
def test_messages_survive_the_wire_in_any_slices(fields: dict[str, Any], step: int) -> None:
    message = {**fields, "type": "any"}
    ((kind, body), *rest) = frames_of(messages.json_frame(message) * 2, step)
    assert kind == messages.JSON_FRAME and len(rest) == 1
    assert messages.parse_json(body) == message


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(1, 40), st.binary(max_size=12))
def test_frames_as_they_come_are_those_that_are_read_to_the_end(
    bodies: list[bytes], step: int, tail: bytes
) -> None:
    data = b"".join(b"\x01" + len(body).to_bytes(4, "big") + body for body in bodies) + tail

    def buffered() -> list[tuple[int, bytes]]:
        buffer = messages.FrameBuffer()
        slices = (data[at : at + step] for at in range(0, len(data), step))
        return [frame for part in slices for frame in buffer.feed(part)]

    def outcome(read: Callable[[], list[tuple[int, bytes]]]) -> list[tuple[int, bytes]] | str:
        try:
            return read()
        except ProtocolError as error:
            return str(error)

    assert outcome(buffered) == outcome(lambda: frames_of(data, step))


@given(st.integers(0, 2**32 - 1), samples)
def test_samples_survive_the_wire(task: int, readings: list[tuple[int, int, int]]) -> None:
    ((kind, body),) = frames_of(messages.samples_frame(task, readings), 1000)
    assert kind == messages.SAMPLES_FRAME
    assert messages.parse_samples(body) == (task, readings)


@given(st.binary(max_size=200))
def test_garbage_ends_in_a_protocol_error_or_a_short_read(data: bytes) -> None:
    async def read_all() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        while True:
            kind, body = await read_frame(reader)
            if kind == messages.JSON_FRAME:
                parse_hello(messages.parse_json(body))
            else:
                messages.parse_samples(body)

    with pytest.raises((ProtocolError, asyncio.IncompleteReadError)):
        asyncio.run(read_all())


@given(json_values)
def test_a_hello_of_any_shape_is_taken_or_refused_and_no_more(value: Any) -> None:
    for hello in (
        {"type": "hello", "protocol": value},
        {"type": "hello", "protocol": messages.PROTOCOL, "addresses": value, "pid": 1},
        {"type": "hello", "protocol": messages.PROTOCOL, "addresses": [value], "pid": value},
    ):
        try:
            parse_hello(json.loads(json.dumps(hello)))
        except ProtocolError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[1]", b'{"a": 1}', b'{"type": 3}', b"\xff\xfe", b"[" * 100_000]
)
def test_json_frames_that_are_no_message_are_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.parse_json(body)


def test_a_frame_is_refused_by_its_header_before_its_body_is_read() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        messages.parse_header(b"\x01\xff\xff\xff\xff")
    with pytest.raises(ProtocolError, match="unknown kind"):
        messages.parse_header(b"\x07\0\0\0\x01")


def test_samples_whose_sizes_disagree_are_refused() -> None:
    body = messages.samples_frame(1, [(1, 2, 3)])[messages.HEADER_BYTES :]
    for broken in (body[:-1], body + b"x", b"", body[:3]):
        with pytest.raises(ProtocolError):
            messages.parse_samples(broken)


def test_another_protocol_version_is_one_clear_line() -> None:
    with pytest.raises(ProtocolError, match=rf"99 .*{messages.PROTOCOL}\b"):
        parse_hello({"type": "hello", "protocol": 99})
