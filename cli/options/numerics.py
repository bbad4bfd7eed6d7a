"""numpy and scipy for a command that computes: loaded with their linear algebra on one thread.

A map's matrices are small: threads of the library wait for each other longer than they work, and where something
else runs they cost half of the time again. Large work runs concurrently with another part of the map, on our own
threads. And no result depends on how many cores a machine has.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys

_SETTING = "OPENBLAS_NUM_THREADS"
_USERS = (_SETTING, "OMP_NUM_THREADS", "GOTO_NUM_THREADS")


# Of glibc's malloc.h: from how many bytes on a piece of memory is the kernel's own, and goes back to it when freed;
# and how many free bytes at the end of the rest go back to it. Set alone, the first leaves the second at 128 KiB.
_MMAP_THRESHOLD, _MOST = -3, 32 << 20
_TRIM_THRESHOLD, _MOST_FREE = -1, 1 << 30
# How many heaps threads have: what one of two freed would be of no use to the other.
_ARENA_MAX = -8


def load_numerics() -> None:
    """Load them, unless they are there already; the user's own setting of threads is kept.

    OpenBLAS reads its setting once, when it is loaded, so what this command starts does not inherit it.
    """
    _keep_memory()
    if "numpy" in sys.modules or any(name in os.environ for name in _USERS):
        return
    os.environ[_SETTING] = "1"
    try:
        # scipy has an OpenBLAS of its own.
        for name in ("numpy", "scipy.linalg"):
            importlib.import_module(name)
    finally:
        del os.environ[_SETTING]


def _keep_memory() -> None:
    """Let arrays of megabytes be taken from memory that is there already, where the C library is glibc.

    Freed and allocated again, a thousand times a map, each page is cleared by the kernel every time: a fifth of the
    time of a map of 256 hosts.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _MOST)
        library.mallopt(_TRIM_THRESHOLD, _MOST_FREE)
        library.mallopt(_ARENA_MAX, 1)
