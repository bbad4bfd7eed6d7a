"""What the tests of probing share: agents as bare processes, made-up visits, and when to skip."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netprobe.core.hosts import Host, make_host
from netprobe.probe.agent import messages
from netprobe.probe.launchers.bootstrap import Payload, new_payload
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.samples import Samples, sample_fields
from netprobe.probe.records.visits import VisitResult


def hosts_named(*names: str, address: str | None = None) -> tuple[Host, ...]:
    """Hosts of these names."""
    return tuple(make_host(name, address=address) for name in names)


def visit(src: int, dst: int, rtts: list[float], **fields: Any) -> VisitResult:
    """A visit with these RTTs in seconds, the probes numbered from 1."""
    count = len(rtts)
    values: dict[str, Any] = {
        "round": 0,
        "started_s": 0.0,
        "duration_s": 0.1,
        "stamps": "kernel" if rtts else None,
        "sent": count,
        "received": count,
    }
    seq = fields.pop("seq", np.arange(1, count + 1, dtype=np.uint32))
    samples = Samples.of_seconds(seq, np.arange(count) * 0.001, rtts)
    return VisitResult(src=src, dst=dst, **(values | sample_fields(samples) | fields))


class AgentProcess:
    """A real agent, driven by hand over its pipes."""

    def __init__(self, argv: list[str], payload: Payload) -> None:
        self.child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(payload.stream())
        head = b""
        while not head.endswith(payload.marker):
            byte = self.child.stdout.read(1)
            if not byte:
                assert self.child.stderr is not None
                raise AssertionError(f"no agent: {self.child.stderr.read()!r}")
            head += byte
        self.noise = head[: -len(payload.marker)]
        self.frames = messages.read_frames(self.child.stdout.read)
        self.hello = self.next()

    def next(self) -> dict[str, Any]:
        """The next message."""
        kind, body = next(self.frames)
        assert kind == messages.JSON_FRAME
        return messages.parse_json(body)

    def send(self, message: dict[str, Any]) -> None:
        """Give it a message."""
        assert self.child.stdin is not None
        self.child.stdin.write(messages.json_frame(message))

    def end(self) -> None:
        """Whatever state it is in, it is gone afterwards."""
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def start_agent() -> Iterator[Callable[..., AgentProcess]]:
    """Starts agents; all are gone after the test."""
    started: list[AgentProcess] = []

    def start(
        *, python: str = sys.executable, lease_s: float = 10.0, prefix: tuple[str, ...] = ()
    ) -> AgentProcess:
        payload = new_payload(lease_s=lease_s, python=python)
        agent = AgentProcess([*prefix, *payload.command("python3")], payload)
        started.append(agent)
        return agent

    yield start
    for agent in started:
        agent.end()


def lose_probes_after(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Where whole visits wait for answers that cannot come: not a second long each, as commands do."""
    defaults = ScanOptions.__init__.__kwdefaults__
    assert defaults is not None and "timeout_s" in defaults
    patch.setitem(defaults, "timeout_s", seconds)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether ``condition`` came true within the time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)  # between two looks at the process table, which nothing announces
    return condition()


def agents_of(parent: int) -> list[int]:
    """Process numbers of the agents that ``parent`` started, in the order of their start."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        state, ppid = stat.rpartition(")")[2].split()[:2]
        if int(ppid) == parent and state != "Z" and b"-ISB" in command:
            found.append(int(entry.name))
    return sorted(found)


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
