"""One source for two speeds: kernels that run as plain Python, or compiled where numba is installed.

A kernel is a function over flat sequences of whole numbers and other kernels of its module. Given lists it
is plain Python; `compiled_kernels` makes a compiled twin of a whole module, for arrays of int64. Both do
the same arithmetic on whole numbers (below 2^63: the callers see to it), so they give the same results.

numba is the extra ``fast``. Importing it takes half a second, and compiling the kernels some seconds, once: they
are kept in numba's cache, beside the module or, where that is not writable, in the user's cache folder. So it
is imported when there is enough to do, and never for a small fleet.
"""

from __future__ import annotations

import functools
import importlib.util
import types
from collections.abc import Callable
from typing import Any


@functools.cache
def numba_is_installed() -> bool:
    """Without importing it."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def compiled_kernels(module: types.ModuleType) -> dict[str, Callable[..., Any]] | None:
    """The functions that ``module.KERNELS`` names, callees first, compiled; None where numba is unusable.

    Each is compiled at its first call, or read from the cache of an earlier run.
    """
    if not numba_is_installed():
        return None
    try:
        import numba
    except Exception:  # one that does not suit this numpy or Python says so in many ways
        return None
    if numba.config.DISABLE_JIT:
        return None
    # A kernel finds the others by name: a twin of the module, in which the names are those of compiled ones.
    scope = dict(vars(module))
    kernels: dict[str, Callable[..., Any]] = {}
    for name in module.KERNELS:
        plain = getattr(module, name)
        twin = types.FunctionType(plain.__code__, scope, name, plain.__defaults__)
        try:
            made = numba.njit(cache=True)(twin)
        except RuntimeError:  # no folder to keep it in is writable
            made = numba.njit(twin)
        scope[name] = kernels[name] = made
    return kernels
