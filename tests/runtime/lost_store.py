"""A program: a rank that gave up on a silent store, whose keeper is killed while it ends.

Arguments: the keeper's process, and the store's port.
"""

import os
import signal
import sys
import time

import torch.distributed as dist

from netprobe.runtime.within import Patient, SilentError
from tests.runtime.lost_message import CODE, Late


def main(keeper: int, port: int) -> None:
    """Stop the keeper, ask, give up, and end."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    os.kill(keeper, signal.SIGSTOP)
    try:
        Patient(store, 0.5).ask(lambda one: one.check(["a"]))
    except SilentError:
        sys.late = Killer(keeper, time.monotonic() + 5)  # type: ignore[attr-defined]
        sys.exit(CODE)


class Killer(Late):
    """Kills the keeper first."""

    def __init__(self, keeper: int, until: float) -> None:
        super().__init__(until)
        self._kill, self._keeper = os.kill, keeper

    def __del__(self) -> None:
        self._kill(self._keeper, 9)
        super().__del__()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
