"""A program: two ranks, one message of which a part comes and one that does not, and an end with code 7.

The end takes so long that the time of the messages is up before it is over.
"""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

from netprobe.probe.agent.collective.program import RECEIVE
from netprobe.runtime.lines import Lines, MessageError
from netprobe.runtime.sockets import close_connections
from netprobe.runtime.tape import Message, Tape

TIMEOUT_S, CODE = 3.0, 7
LARGE = 32 << 20


class Late:
    """Is collected when the interpreter ends, and takes until ``until`` (of the monotonic clock)."""

    def __init__(self, until: float) -> None:
        self._until, self._now, self._sleep, self._write = until, time.monotonic, time.sleep, os.write

    def __del__(self) -> None:
        self._write(1, b"ending\n")
        self._sleep(max(self._until - self._now(), 0.0))
        self._write(1, b"ended\n")


def main() -> None:
    """Both ranks in this process."""
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as pool:
        ranks = list(pool.map(lambda rank: Lines(store, rank, 2, 1, TIMEOUT_S, native=False), range(2)))
    sent, into = torch.ones(LARGE), torch.zeros(LARGE + 1)
    base = ranks[1]._base(into)

    work = ranks[1]._groups[0].send([sent], 0, base)

    def lose() -> None:
        while not into[0]:
            pass
        close_connections(ranks[1]._ends)

    threading.Thread(target=lose).start()
    messages = (
        Message(RECEIVE, 1, 0, 0, 0, LARGE, False, 0),
        Message(RECEIVE, 1, 0, 1, LARGE, LARGE + 1, False, 0),
    )
    tape = Tape(messages=messages, operations=(), slots=0, slot_elements=0, tags=2, window=2, after=((), ()))
    until = time.monotonic() + TIMEOUT_S + 0.5
    try:
        ranks[0].run(tape, into)
    except MessageError as error:
        how = "time is up" if error.timed_out else "closed by peer"
    assert not into[LARGE - 1], "all of it came"
    ranks[0].close()
    left = sum(thread.name == "netprobe-wait" for thread in threading.enumerate())
    sys.stdout.write(f"{how}, {left} thread left\n")
    sys.stdout.flush()
    sys.late = Late(until), work  # type: ignore[attr-defined]
    sys.exit(CODE)


if __name__ == "__main__":
    main()
