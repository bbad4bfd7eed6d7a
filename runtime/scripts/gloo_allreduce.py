"""Gloo's own all_reduce through torch.distributed, timed in one rank order after another. One process a host.

The first line of standard input says who this process is::

    {"index": 3, "hosts": 16, "address": "10.0.0.4", "timeout_s": 300}

Host 0 opens a TCPStore and prints its port; every process is then sent ``{"store": ["10.0.0.1", 40001]}``. A further
line is a trial: ``{"size_bytes": N, "warm_bytes": M, "order": [2, 0, 1, ...]}``, the index of the host that becomes
each rank. torch sorts the ranks of a group inside another one, so an order other than the last gets a process group
of its own. Every sum is checked. Lines of ours on standard output begin with ``netprobe``; one a trial tells
this process's seconds from a barrier to its end. It ends with its input, at any point.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

MAX_LINE_BYTES = 1 << 20
SIOCGIFADDR = 0x8915
PERIOD = 8


def say(message: dict[str, Any]) -> None:
    """One line to the controller."""
    sys.stdout.write("netprobe " + json.dumps(message) + "\n")
    sys.stdout.flush()


def interface_of(address: str) -> str | None:
    """The name of the interface that has ``address``; None where it cannot be found out."""
    wanted = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0]
    try:
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            words = line.split()
            if socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0])) == wanted:
                return words[5]
    except (OSError, ValueError, IndexError):
        pass
    try:
        import fcntl
    except ImportError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == wanted:
                return name
    return None


def lines_of_input() -> queue.Queue[str]:
    """A queue of the lines of standard input; the process ends where they do."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        while True:
            line = sys.stdin.readline(MAX_LINE_BYTES)
            if not line.endswith("\n"):
                os._exit(0)
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return lines


class Member:
    """This process's part of the job."""

    def __init__(self, index: int, hosts: int, timeout_s: float) -> None:
        import datetime

        import torch
        import torch.distributed

        torch.set_num_threads(1)
        self.torch, self.dist = torch, torch.distributed
        self.index, self.hosts = index, hosts
        self.timeout = datetime.timedelta(seconds=timeout_s)
        self.groups = 0
        self.order: list[int] | None = None
        self.store: Any = None
        self.expected: Any = ()

    def open_store(self, address: str, port: int) -> int:
        """Join the store of host 0, or open it there (``port`` 0); its port."""
        if self.store is None:
            self.store = self.dist.TCPStore(
                address, port, None, self.index == 0, timeout=self.timeout, wait_for_workers=False
            )
        return int(self.store.port)

    def take_order(self, order: list[int]) -> None:
        """Make the process group of an order, if it is not the last one's."""
        if order == self.order:
            return
        if sorted(order) != list(range(self.hosts)):
            raise ValueError("no order of the hosts")
        self.leave()
        store = self.dist.PrefixStore(f"order {self.groups}", self.store)
        self.groups += 1
        self.dist.init_process_group(
            "gloo", store=store, rank=order.index(self.index), world_size=self.hosts, timeout=self.timeout
        )
        self.order = order

    def leave(self) -> None:
        """Give the process group back."""
        if self.order is not None:
            self.order = None
            self.dist.destroy_process_group()

    def numbers(self, scale: int, count: int) -> Any:
        """Small whole numbers, which floats add exactly in any order."""
        torch = self.torch
        repeats = -(-count // PERIOD)
        return (torch.arange(1, PERIOD + 1, dtype=torch.float32) * scale).repeat(repeats)[:count]

    def reduce(self, count: int) -> tuple[float, bool]:
        """Seconds, and whether all the sums are right."""
        if len(self.expected) < count:
            self.expected = self.numbers(sum(i % 16 + 1 for i in range(self.hosts)), count)
        data = self.numbers(self.index % 16 + 1, count)
        self.dist.barrier()
        began = time.perf_counter()
        self.dist.all_reduce(data)
        took = time.perf_counter() - began
        return took, bool(self.torch.equal(data, self.expected[:count]))

    def run(self, size_bytes: int, warm_bytes: int, order: list[int]) -> tuple[float, bool]:
        """One trial."""
        if any(n < 4 or n % 4 or n > 1 << 32 for n in (size_bytes, warm_bytes)):
            raise ValueError("no size in floats")
        self.take_order(order)
        self.reduce(warm_bytes // 4)
        return self.reduce(size_bytes // 4)


def main() -> None:
    """Serve trials until the input ends."""
    say({"up": True})
    lines = lines_of_input()
    try:
        settings = json.loads(lines.get())
        address = settings["address"]
        interface = interface_of(address)
        if interface is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = interface
        member = Member(settings["index"], settings["hosts"], settings["timeout_s"])
        say({"ready": member.torch.__version__, "host": socket.gethostname(), "interface": interface})
        if member.index == 0:
            say({"port": member.open_store(address, 0)})
        member.open_store(*json.loads(lines.get())["store"])
        while True:
            trial = json.loads(lines.get())
            took, right = member.run(trial["size_bytes"], trial["warm_bytes"], trial["order"])
            say({"seconds": took, "correct": right})
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        sys.stderr.write(f"gloo_allreduce: {text}\n")
        sys.stderr.flush()
        # torch's threads may wait for peers that will not come.
        os._exit(2)


if __name__ == "__main__":
    main()
