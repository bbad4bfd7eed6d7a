"""The tasks of built-in TCP flows. Several may run at once on a host, in both directions.

``tcp_serve`` says where a flow will be received, ``tcp_send`` runs it from the other host, ``tcp_collect``
gives what the receiver counted, ``tcp_close`` ends the port with the scan's last flow. ``tcp_clock`` reads
this host's monotonic clock, so that flows of many hosts can start at one moment.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import time

from .flow_receiver import TOKEN_BYTES, FlowServer, Receiver
from .flow_sender import FlowSender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = tuple[dict[str, Any], None]

MAX_STREAMS = 128
MAX_DURATION_NS = 3600 * 10**9
MIN_SLICE_NS = 1000000


def serve(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Expect a flow; the port is opened with the first one and stays open until ``tcp_close``."""
    receiver = Receiver(
        _token(message),
        _streams(message),
        max(int(message["slice_ns"]), MIN_SLICE_NS),
        min(int(message["limit_ns"]), MAX_DURATION_NS),
    )
    server = resources.get("flows")
    if server is None:
        low, high = message["ports"]
        server = resources["flows"] = FlowServer(message["address"], (int(low), int(high)))
    server.expect(receiver)
    return {"type": "serving", "port": server.port}, None


def send(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """Run a flow to another host."""
    sender = FlowSender(
        message["address"], int(message["port"]), message["source"], _token(message), _streams(message)
    )
    duration = min(int(message["duration_ns"]), MAX_DURATION_NS)
    slice_ns = int(message.get("slice_ns", 0))
    slice_ns = max(slice_ns, MIN_SLICE_NS) if slice_ns else 0
    return sender.run(int(message["at_ns"]), duration, max(0, int(message["bytes"])), slice_ns), None


def collect(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """What a flow's receiver counted; waits ``wait_ns`` for its end, and forgets it."""
    server = resources.get("flows")
    token = _token(message)
    receiver = server.expected.get(token) if server is not None else None
    if server is None or receiver is None:
        raise ValueError("a flow that was never expected")
    try:
        receiver.done.wait(min(int(message["wait_ns"]), MAX_DURATION_NS) / 1e9)
        ended = receiver.done.is_set()
        receiver.close()
        if not ended and len(receiver.socks) == receiver.streams:
            receiver.done.wait(1.0)  # it stops by itself, and has what came until now
    finally:
        server.forget(token)
    answer = {
        "type": "collected",
        "streams": len(receiver.socks),
        "ended": ended,
        "marks": list(receiver.marks),
        "reads": list(receiver.reads),
        "cpu_ns": receiver.cpu_ns,
        "wait_ns": receiver.wait_ns,
        "ended_ns": receiver.ended_ns,
    }
    return answer, None


def close(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """Close the port of flows, if there is one."""
    server = resources.pop("flows", None)
    if server is not None:
        server.close()
    return {"type": "closed"}, None


def clock(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """The monotonic clock."""
    return {"type": "clock", "now_ns": time.monotonic_ns()}, None


def _token(message: dict[str, Any]) -> bytes:
    token = bytes.fromhex(message["token"])
    if len(token) != TOKEN_BYTES:
        raise ValueError("a token of %d bytes" % len(token))
    return token


def _streams(message: dict[str, Any]) -> int:
    streams = int(message["streams"])
    if not 1 <= streams <= MAX_STREAMS:
        raise ValueError("%d streams: 1 to %d are allowed" % (streams, MAX_STREAMS))
    return streams
