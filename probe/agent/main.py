"""The agent's process: hello, tasks one after the other, and never outliving the controller.

Three threads. The main one runs tasks; the reflector answers probes; the reader takes frames, answers
pings at once and ends the process when the input ends. Each frame renews the lease, an interval timer
whose signal ends the process by itself: no thread need be alive for it, so a hung agent goes too.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import gc
import os
import queue
import signal
import sys
import threading

from . import addresses, dial, identity, messages, tasks
from .messages import AGENT_VERSION, BAD_REQUEST, INTERNAL, OS_ERROR, PERMISSION, PROTOCOL
from .stamp.sender import errno_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GARBAGE = 50000
"""Objects, some megabytes of them, between two searches for cycles. A series makes none, and at Python's 700 it would
be searched several times, all of the standard library with it."""
MIN_LEASE_S = 0.5
"""A lease shorter than a scheduling hiccup would end healthy agents."""


class Agent:
    """One agent, speaking over ``source`` and ``sink`` (file descriptors)."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.lock = threading.Lock()
        self.tasks = queue.SimpleQueue()  # type: queue.SimpleQueue[dict[str, Any]]
        self.lease_s = 10.0
        self.resources = {}  # type: dict[str, Any]

    def run(self) -> None:
        """Serve until the controller ends it; does not return."""
        frames = messages.read_frames(lambda count: os.read(self.source, count))
        config = messages.parse_json(next(frames)[1])
        if config["type"] == "dial":
            self.source = self.sink = dial.dial(config)
            config = messages.parse_json(next(frames)[1])
        self.lease_s = max(MIN_LEASE_S, float(config["lease_s"]))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        self._renew()
        self._write(messages.marker(config["nonce"]) + messages.json_frame(hello()))
        threading.Thread(target=self._read, args=(frames,), name="reader", daemon=True).start()
        while True:
            self._do(self.tasks.get())

    def _renew(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.lease_s)

    def _read(self, frames: Any) -> None:
        code = 0
        try:
            for kind, body in frames:
                self._renew()
                if kind != messages.JSON_FRAME:
                    raise messages.ProtocolError("the controller sends no samples")
                message = messages.parse_json(body)
                if message["type"] == "ping":
                    self._send({"type": "pong", "id": message.get("id")})
                elif message["type"] == "quit":
                    break
                else:
                    self.tasks.put(message)
        except BaseException as error:
            sys.stderr.write("netprobe agent: %s\n" % error)
            code = 1
        os._exit(code)  # sockets and all, also while other threads run

    def _do(self, message: dict[str, Any]) -> None:
        """Run a task; one that must not block others gets its own thread."""
        if tasks.is_threaded(message["type"]):
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        else:
            self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        task = int(message.get("id", 0))
        try:
            answer, samples = tasks.find(message["type"])(message, self.resources)
            if samples is not None:
                self._write(messages.samples_frame(task, samples))
            self._send(dict(answer, id=task))
        except OSError as error:
            code = PERMISSION if error.errno in (errno.EPERM, errno.EACCES) else OS_ERROR
            self._send({"type": "failed", "id": task, "code": code, "reason": errno_text(error)})
        except Exception as error:
            import traceback  # a fifth of the agent's start

            last = traceback.format_exc(limit=-2)[-2000:]
            code = BAD_REQUEST if isinstance(error, ValueError) else INTERNAL
            reason = "%s: %s" % (type(error).__name__, error)
            self._send({"type": "failed", "id": task, "code": code, "reason": reason, "traceback": last})

    def _send(self, message: dict[str, Any]) -> None:
        self._write(messages.json_frame(message))

    def _write(self, data: bytes) -> None:
        with self.lock:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self.sink, view) :]
                except OSError:
                    os._exit(1)  # nobody listens any more


def hello() -> dict[str, Any]:
    """What the agent says of itself and its host."""
    uname = os.uname()
    return {
        "type": "hello",
        "protocol": PROTOCOL,
        "agent": AGENT_VERSION,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "hostname": uname.nodename,
        "kernel": "%s %s" % (uname.sysname, uname.release),
        "machine": uname.machine,
        "pid": os.getpid(),
        "addresses": addresses.list_addresses(),
        **identity.read_identity(),
    }


import_all = tasks.import_all


def main() -> None:
    """Keep a private descriptor for the protocol, and point standard output at standard error."""
    sink = os.dup(1)
    os.dup2(2, 1)
    gc.set_threshold(GARBAGE)
    Agent(0, sink).run()
