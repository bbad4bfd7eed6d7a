"""numpy and scipy for a command that computes: loaded with their linear algebra on one thread.

A map's matrices are small: threads of the library wait for each other longer than they work, and where something
else runs they cost half of the time again. What is large goes on beside another part of the map, on threads of our
own. And no result depends on how many cores a machine has.
"""

from __future__ import annotations

import importlib
import os
import sys

_SETTING = "OPENBLAS_NUM_THREADS"
_USERS = (_SETTING, "OMP_NUM_THREADS", "GOTO_NUM_THREADS")


def load_numerics() -> None:
    """Load them, unless they are there already; the user's own setting of threads is kept.

    OpenBLAS reads its setting once, when it is loaded, so what this command starts does not inherit it.
    """
    if "numpy" in sys.modules or any(name in os.environ for name in _USERS):
        return
    os.environ[_SETTING] = "1"
    try:
        # scipy has an OpenBLAS of its own.
        for name in ("numpy", "scipy.linalg"):
            importlib.import_module(name)
    finally:
        del os.environ[_SETTING]
