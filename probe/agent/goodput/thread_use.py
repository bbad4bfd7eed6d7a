"""What the processors gave a thread."""

from __future__ import annotations

import time


def thread_use() -> tuple[int, int]:
    """ns that this thread has run, and that it could have run and waited for a processor (0: unknown)."""
    waited = 0
    try:
        with open("/proc/thread-self/schedstat") as file:
            waited = int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        pass
    return time.thread_time_ns(), waited
