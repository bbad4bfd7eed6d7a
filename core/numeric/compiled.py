"""One source for two speeds: kernels that run as plain Python, or compiled where numba is installed.

A kernel is a function over flat sequences of numbers and other kernels. Uncompiled it is plain
Python, for lists or arrays; `compiled_kernels` makes a compiled twin of a whole module, for arrays. Both do the same
arithmetic in the same sequence, so they give the same results.

A module of kernels says which they are (KERNELS, callees first), which are called from Python (ENTRIES),
which have a twin that compiles better (COMPILED), and which other modules hold some of them (PARTS).

numba is the extra ``fast``. Importing it takes half a second, and compiling the kernels some seconds, once: they
are kept in numba's cache, in NUMBA_CACHE_DIR, next to the module or, where that is not writable, in the user's cache
folder. So it is imported when there is enough to do, and never for a small fleet.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any


@functools.cache
def numba_is_installed() -> bool:
    """Without importing it."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def compiled_kernels(module: types.ModuleType) -> dict[str, Callable[..., Any]] | None:
    """The functions that ``module.KERNELS`` names, callees first, compiled; None where numba is unusable.

    They are compiled, or read from the cache of an earlier run, when this is first called.
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
    scope: dict[str, Any] = {}
    for part in (*module.PARTS, module):
        scope |= vars(part)
    scope |= module.COMPILED
    digest = _digest((*module.PARTS, module))
    kernels: dict[str, Callable[..., Any]] = {}
    for name in module.KERNELS:
        plain = scope[name]
        twin = types.FunctionType(plain.__code__, scope, name, plain.__defaults__)
        # numba's cache keeps a kernel with those that it calls in it, and looks at the kernel's own file only to see
        # whether it has changed: under this name it is compiled again when any of the files has.
        twin.__qualname__ = f"{name}_{digest}"
        # One set of types each: left to itself numba compiles another one for each constant that is passed. Only what
        # Python calls gets an entry point from there.
        inner = name not in module.ENTRIES
        options = {"error_model": "numpy", "no_cpython_wrapper": inner, "no_cfunc_wrapper": True}
        kinds = _kinds(numba.types, plain)
        try:
            made = numba.njit(kinds, cache=True, **options)(twin)
        except RuntimeError:  # no folder to keep it in is writable
            made = numba.njit(kinds, **options)(twin)
        scope[name] = kernels[name] = made
    return kernels


def _digest(modules: Sequence[types.ModuleType]) -> str:
    """Of the sources of ``modules``."""
    return hashlib.sha256("".join(map(inspect.getsource, modules)).encode()).hexdigest()[:12]


def _kinds(names: Any, plain: Callable[..., Any]) -> tuple[Any, ...] | None:
    """numba's names of the arguments: numbers, whether, sequences (Any) and tuples of these; None: as they come."""
    found = []
    for name, kind in inspect.get_annotations(plain, eval_str=True).items():
        if name == "return":
            continue
        if hasattr(kind, "_fields"):
            found.append(names.NamedUniTuple(names.Array(names.int64, 1, "C"), len(kind._fields), kind))
        elif kind in (Any, int, bool):
            found.append({Any: names.Array(names.int64, 1, "C"), int: names.int64, bool: names.boolean}[kind])
        else:
            return None
    return tuple(found)
