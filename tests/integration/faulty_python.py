"""Stands in for a host's Python and makes that host sick: FAULTS_JSON, then what Python would be given.

Used as ``--python "python3 faulty_python.py FAULTS"``. FAULTS maps a host's name to ``loss`` (a share of the
UDP packets that its sockets receive is dropped by a classic BPF filter in the kernel) or ``clock`` (its wall
clock jumps to and fro by an hour every so many readings of it). The agent then runs in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
import time

SO_ATTACH_FILTER = 26
LOAD_RANDOM, GREATER, RETURN = 0x20, 0x25, 0x06
RANDOM_WORD = 0xFFFFF038  # SKF_AD_OFF + SKF_AD_RANDOM
HOUR_NS = 3600 * 10**9


def lose(share: float) -> None:
    """Let every datagram socket drop a share of what it receives."""
    code = [
        (LOAD_RANDOM, 0, 0, RANDOM_WORD),
        (GREATER, 1, 0, int(share * 0xFFFFFFFF)),
        (RETURN, 0, 0, 0),
        (RETURN, 0, 0, 0xFFFFFFFF),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    plain = socket.socket

    class Lossy(plain):  # type: ignore[misc,valid-type]
        def __init__(self, family: int = -1, kind: int = -1, *rest: int) -> None:
            super().__init__(family, kind, *rest)
            if kind != -1 and kind & 0xF == socket.SOCK_DGRAM:
                filter_ = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
                self.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)

    socket.socket = Lossy  # type: ignore[misc,assignment]


def jump(every: int) -> None:
    """Let the wall clock jump by an hour, and back, after ``every`` readings."""
    plain, count = time.time_ns, 0

    def time_ns() -> int:
        nonlocal count
        count += 1
        return plain() + (HOUR_NS if count // every % 2 else 0)

    time.time_ns = time_ns


def main() -> None:
    """Fall sick, then do what Python was asked to."""
    mine = json.loads(sys.argv[1]).get(os.uname().nodename, {})
    if "loss" in mine:
        lose(mine["loss"])
    if "clock" in mine:
        jump(mine["clock"])
    code = sys.argv[sys.argv.index("-c") + 1]
    exec(code, {"__name__": "__main__", "__builtins__": __builtins__})


main()
