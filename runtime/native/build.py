"""The library in C: compiled once a machine and user, and loaded."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

SOURCES = tuple(
    Path(__file__).parent / name
    for name in ("collective.c", "move.c", "queues.c", "engine.c", "tape.c", "add.c")
)
HEADERS = tuple(Path(__file__).parent / name for name in ("messages.h", "add.h"))
FLAGS = ("-std=gnu11", "-O3", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")
COMPILE_S = 60.0
_INT, _LONG, _REAL, _POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_REALS, _INTS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)


class NotBuiltError(Exception):
    """The library cannot be had here; says why."""


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The library. Raises NotBuiltError."""
    try:
        found = ctypes.CDLL(str(_compiled()))
        _declare(found)
    except (OSError, AttributeError) as error:
        raise NotBuiltError(f"its library cannot be loaded: {error}") from None
    return found


def _compiled() -> Path:
    """The path of the compiled library, made where it is not there yet."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NotBuiltError("this machine has no C compiler (on Debian: apt-get install gcc libc6-dev)")
    name = f"messages-{_fingerprint(compiler)}.so"
    folder = _cache()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="netprobe-native-"))
        try:
            made = _compile(compiler, folder / name)
            ctypes.CDLL(str(made))  # stays when its file is gone
            return made
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    path = folder / name
    return path if path.exists() else _compile(compiler, path)


def _fingerprint(compiler: str) -> str:
    """Of what the library is made from, by what, and for which machine: homes are shared among unlike hosts."""
    found = hashlib.sha256()
    for source in (*SOURCES, *HEADERS):
        found.update(source.read_bytes())
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, timeout=COMPILE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuiltError(f"{compiler} does not run: {error}") from None
    found.update(repr((said.stdout, FLAGS, platform.machine(), platform.libc_ver())).encode())
    return found.hexdigest()[:24]


def _cache() -> Path | None:
    """A folder that only this user writes to; None where there is none."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    folder = Path(base) / "netprobe"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError:
        return None
    own = about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if own and os.access(folder, os.W_OK) else None


def _compile(compiler: str, path: Path) -> Path:
    """Compile into a file of its own first: ranks that start at once do not see each other's halves."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".so")
    os.close(handle)
    try:
        argv = [compiler, *FLAGS, "-o", name, *map(str, SOURCES)]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_S)
        if said.returncode:
            raise NotBuiltError(f"{compiler} could not compile it: {' '.join(said.stderr.split())[:200]}")
        Path(name).replace(path)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuiltError(f"{compiler} could not compile it: {error}") from None
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def _declare(found: ctypes.CDLL) -> None:
    for name, result, arguments in (
        ("np_tape_new", _POINTER, [_INT, _POINTER, _INTS, _INTS, _INT]),
        ("np_tape_free", None, [_POINTER]),
        ("np_engine_new", _POINTER, [_INT, _INTS]),
        ("np_engine_free", None, [_POINTER]),
        ("np_begin", _INT, [_POINTER, _POINTER, _POINTER, _INT, _INT, ctypes.c_uint32]),
        ("np_go", _INT, [_POINTER, _REAL, _REAL]),
        ("np_stop", None, [_POINTER]),
        ("np_told", None, [_POINTER, _REALS, _REALS, _INTS, _INTS]),
        ("np_waited", None, [_POINTER, _REALS]),
        ("np_send_buffer", _INT, [_REAL, _REAL, _REAL, _INT]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
