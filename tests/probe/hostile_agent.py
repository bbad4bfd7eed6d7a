"""A Python for hosts that are hostile: it takes the agent's stream and answers as ROLE says.

The role ``good`` is the real agent. Run as ``--python 'PYTHON hostile_agent.py'``, it gets the agent's own arguments.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m[red]x[/red] :bug:\u202e\r"
"""Sets a terminal's title, clears it, colours it, turns its text round; and what rich would make something of."""


def exactly(count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def frame() -> Any:
    kind, length = struct.unpack("!BI", exactly(5))
    assert kind == 1
    return json.loads(exactly(length))


def write(data: bytes, descriptor: int = 1) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def send(message: Any) -> None:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    write(struct.pack("!BI", 1, len(body)) + body)


def samples(task: int, records: list[tuple[int, int, int]]) -> None:
    body = struct.pack("!II", task, len(records)) + b"".join(
        struct.pack("!Iqq", *record) for record in records
    )
    write(struct.pack("!BI", 2, len(body)) + body)


def hello(**changes: Any) -> dict[str, Any]:
    message = {
        "type": "hello",
        "protocol": 3,
        "agent": "1.0",
        "python": "3.12.1",
        "hostname": "h",
        "kernel": "Linux 6",
    }
    return {**message, "machine": "x", "pid": 7, "addresses": [], **changes}


def done(task: int, **changes: Any) -> dict[str, Any]:
    message = {
        "type": "done",
        "id": task,
        "sent": 5,
        "received": 5,
        "duplicates": 0,
        "rejected": 0,
        "unsent": 0,
    }
    return {**message, "source_port": 9, "stamps": "kernel", "duration_ns": 1, "reason": None, **changes}


def opened(task: int, **changes: Any) -> dict[str, Any]:
    return {"type": "opened", "id": task, "address": "x", "port": 9, "stamps": "kernel", **changes}


def serve(
    answer: Callable[[dict[str, Any]], Any],
    open_: Callable[[dict[str, Any]], Any] = lambda message: send(opened(message["id"])),
    **changes: Any,
) -> None:
    """Behave up to the first task that ``answer``, or ``open_``, is asked to do."""
    send(hello(**changes))
    while True:
        message = frame()
        if message["type"] == "ping":
            send({"type": "pong", "id": message.get("id")})
        elif message["type"] == "quit":
            os._exit(0)
        elif message["type"] == "open":
            open_(message)
        elif message["type"] == "probe":
            answer(message)
        else:
            words = dict.fromkeys(("clock_source", "congestion_control", "interface", "driver"), ESCAPES)
            numbers = dict.fromkeys(
                ("load", "steal_ratio", "busy_ratio", "delay_p50_ns", "delay_p99_ns", "cores"), 1
            )
            programs = {"iperf3": ESCAPES, ESCAPES: ESCAPES}
            send({"type": "audited", "id": message["id"], **words, **numbers, "programs": programs})


def nothing(_message: dict[str, Any]) -> None:
    pass


def escapes() -> None:
    words = {"hostname": ESCAPES, "kernel": ESCAPES, "python": ESCAPES, "agent": ESCAPES}
    serve(
        nothing,
        lambda m: send({"type": "failed", "id": m["id"], "code": ESCAPES, "reason": ESCAPES}),
        **words,
    )


def failing() -> None:
    """Up and willing, but for what it says."""
    serve(
        lambda m: send({"type": "failed", "id": m["id"], "code": ESCAPES, "reason": ESCAPES}),
        hostname=ESCAPES,
    )


def flood() -> None:
    send(hello())
    while True:
        send({"type": "pong", "id": 1})


def slow_hello() -> None:
    write(struct.pack("!BI", 1, 1000))
    while True:
        write(b" ")
        time.sleep(0.1)  # as slow as it likes


def noise() -> None:
    while True:
        write(b"Welcome!\n" * 1000)


def standard_error() -> None:
    while True:
        write(ESCAPES.encode() * 1000, 2)


def last_words() -> None:
    write(b"\n" + ESCAPES.encode() + b"\n", 2)
    os._exit(9)


def hang() -> None:
    send(hello())
    time.sleep(600)


BEFORE_THE_MARKER: dict[str, Callable[[], Any]] = {
    "noise": noise,
    "stderr": standard_error,
    "words": last_words,
}
ROLES: dict[str, Callable[[], Any]] = {
    "huge": lambda: write(b"\x01\xff\xff\xff\xff" + b"x" * 100000),
    "slow": slow_hello,
    "deep": lambda: send(
        b'{"type":"hello","protocol":3,"pid":1,"agent":' + b"[" * 400000 + b"]" * 400000 + b"}"
    ),
    "nested": lambda: serve(nothing, hostname=json.loads("[" * 900 + "]" * 900), protocol=[[]]),
    "types": lambda: send(hello(pid="x", hostname=["a"], python={}, addresses={"a": 1})),
    "digits": lambda: send(b'{"type":"hello","protocol":3,"pid":' + b"9" * 100000 + b"}"),
    "addresses": lambda: send(hello(addresses=[{"address": "10.0.0.1"}] * 5000)),
    "escapes": escapes,
    "failing": failing,
    "flood": flood,
    "hang": hang,
    "many": lambda: serve(lambda m: samples(m["id"], [(1, 1, 1)] * 90000)),
    "negative": lambda: serve(lambda m: send(done(m["id"], sent=-5, received=-7))),
    "nan": lambda: serve(lambda m: send(b'{"type":"done","id":%d,"sent":NaN,"received":1e999}' % m["id"])),
    "years": lambda: serve(lambda m: samples(m["id"], [(1, 0, 1 << 62)])),
    "port": lambda: serve(nothing, lambda m: send(opened(m["id"], port=99999))),
}


def main() -> None:
    role = os.environ["ROLE"].rstrip("0123456789")
    if role == "good":
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    write(b"\nnetprobe-ready\n")
    exactly(int(exactly(8), 16))
    exactly(int(exactly(8), 16))
    nonce = frame()["nonce"]
    if role in BEFORE_THE_MARKER:
        BEFORE_THE_MARKER[role]()
    write(b"\nnetprobe-agent %s\n" % nonce.encode())
    ROLES[role]()
    time.sleep(600)  # until the controller ends it


if __name__ == "__main__":
    main()
