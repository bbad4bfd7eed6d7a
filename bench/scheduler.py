"""What the controller itself costs: planning rounds, and a scan of all pairs whose agents answer at once, in memory.

The scheduler, the connections, the checks of what agents send, the journal and the document are the real
ones; the agents are a few lines in this process, whose own time is measured and taken off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import struct
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from _tables import heading, table

from netprobe.core.hosts import Host
from netprobe.probe.agent import messages
from netprobe.probe.launchers.launch import Channel
from netprobe.probe.records.events import Event, RoundDone
from netprobe.probe.records.journal import Journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import ScanOutcome
from netprobe.probe.rounds.circle import two_passes
from netprobe.probe.scan.session import ScanLog, measure

PLANNED = (1024, 4096)


class InMemory:
    """An agent that answers as soon as it is asked, with the same readings each time."""

    spent_s = 0.0
    spent_cpu_s = 0.0

    def __init__(self, host: Host, index: int, probes: int) -> None:
        self.host = host
        self.reader = asyncio.StreamReader()
        address = f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"
        hello = {
            "type": "hello", "protocol": messages.PROTOCOL, "agent": messages.AGENT_VERSION, "python": "3.11.0",
            "hostname": host.name, "kernel": "Linux", "machine": "x86_64", "pid": 1 + index, "boot_id": str(index),
            "netns": str(index), "addresses": [{"address": address, "interface": "eth0", "preferred": True}],
        }  # fmt: skip
        self.reader.feed_data(messages.json_frame(hello))
        frame = messages.samples_frame(0, [(seq, seq * 1000, 100000 + seq) for seq in range(1, probes + 1)])
        self._before_task, self._after_task = (
            frame[: messages.HEADER_BYTES],
            frame[messages.HEADER_BYTES + 4 :],
        )
        done = {
            "type": "done", "sent": probes, "received": probes, "duplicates": 0, "rejected": 0, "unsent": 0,
            "source_port": 40000, "stamps": "kernel", "duration_ns": 20000000, "reason": None,
        }  # fmt: skip
        self._done = json.dumps(done, separators=(",", ":"))[:-1]

    def write(self, data: bytes) -> None:
        """Take frames and answer each."""
        began, cpu = time.perf_counter(), time.thread_time()
        while data:
            _, length = messages.parse_header(data[: messages.HEADER_BYTES])
            end = messages.HEADER_BYTES + length
            self._answer(json.loads(data[messages.HEADER_BYTES : end]))
            data = data[end:]
        InMemory.spent_s += time.perf_counter() - began
        InMemory.spent_cpu_s += time.thread_time() - cpu

    def _answer(self, message: dict[str, object]) -> None:
        kind, id_ = message["type"], message.get("id")
        if kind == "open":
            self._say({"type": "opened", "id": id_, "port": 20000, "stamps": "kernel"})
        elif kind == "ping":
            self._say({"type": "pong", "id": id_})
        elif kind == "probe":
            # Made beforehand but for its number: what is measured is the controller.
            done = f'{self._done},"id":{id_}}}'.encode()
            header = struct.pack("!BI", messages.JSON_FRAME, len(done))
            task = struct.pack("!I", id_)
            self.reader.feed_data(b"".join((self._before_task, task, self._after_task, header, done)))

    def _say(self, message: dict[str, object]) -> None:
        self.reader.feed_data(messages.json_frame(message))

    def queued_bytes(self) -> int:
        """None ever wait."""
        return 0

    def diagnosis(self) -> str | None:
        """It says nothing."""
        return None

    def close(self) -> None:
        """End of its output."""
        self.reader.feed_eof()

    async def reap(self, grace_s: float) -> None:
        """There is no process."""

    def kill(self) -> None:
        """There is no process."""


class Launcher:
    """Agents in memory."""

    local = False

    def __init__(self, probes: int) -> None:
        self._probes = probes

    def check(self, hosts: Sequence[Host]) -> None:
        """All are there."""

    async def launch(self, hosts: Sequence[Host], *_unused: object) -> AsyncIterator[Channel]:
        """All at once."""
        for index, host in enumerate(hosts):
            yield InMemory(host, index + 1, self._probes)


def scan(hosts: int, probes: int) -> tuple[str, ...]:
    """One scan of all pairs."""
    names = [Host(name=f"h{index:04d}") for index in range(hosts)]
    options = ScanOptions(probes_per_visit=probes, audit=False)
    InMemory.spent_s = InMemory.spent_cpu_s = 0.0
    ended: dict[str, float] = {}

    async def timed(journal: Journal) -> ScanOutcome:
        return await measure(
            names, Launcher(probes), options=options, log=ScanLog(journal=journal), on_event=seen
        )

    def seen(event: Event) -> None:
        if isinstance(event, RoundDone):
            ended["wall"], ended["cpu"] = time.perf_counter(), time.process_time()

    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "j", names, {}) as journal:
        began, cpu = time.perf_counter(), time.process_time()
        outcome = asyncio.run(timed(journal))
        end, end_cpu = time.perf_counter(), time.process_time()
        size = (Path(folder) / "j").stat().st_size
    links = outcome.scan.visits.columns["samples"].nonzero()[0].size
    if links != hosts * (hosts - 1):
        print(f"only {links} of {hosts * (hosts - 1)} links: {outcome.scan.reason}")
    rounds_s, build_s = ended["wall"] - began - InMemory.spent_s, end - ended["wall"]
    rounds_cpu_s, build_cpu_s = ended["cpu"] - cpu - InMemory.spent_cpu_s, end_cpu - ended["cpu"]
    return (
        f"{hosts}",
        f"{links}",
        f"{rounds_s:.1f} s",
        f"{1e6 * rounds_s / links:.0f} us",
        f"{1e6 * rounds_cpu_s / links:.0f} us",
        f"{build_s:.1f} s",
        f"{1e6 * build_cpu_s / links:.0f} us",
        f"{size / 1e6:.0f} MB",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB",
    )


def main() -> None:
    """Plans, then scans."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="64,256")
    parser.add_argument("--probes", type=int, default=20)
    options = parser.parse_args()
    rows = []
    for hosts in PLANNED:
        began = time.perf_counter()
        rounds = two_passes(range(hosts))
        links = sum(len(rounds.ends(turn)) for turn in range(len(rounds)))
        took = time.perf_counter() - began
        assert links == rounds.links
        tracemalloc.start()
        kept = two_passes(range(hosts))
        assert kept[len(kept) // 2]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append((hosts, len(rounds), links, f"{took:.2f} s", f"{peak / 1e6:.1f} MB"))
    heading("planning: all rounds of both passes, one at a time")
    table(("hosts", "rounds", "links", "all rounds", "most memory"), rows)
    heading(f"scans of all pairs, agents in memory, {options.probes} probes a visit")
    table(
        (
            "hosts", "links", "rounds", "a link", "CPU a link", "document", "CPU a link of it", "journal",
            "peak memory",
        ),
        [scan(int(hosts), options.probes) for hosts in options.hosts.split(",")],
    )  # fmt: skip


if __name__ == "__main__":
    main()
