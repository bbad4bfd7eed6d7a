"""The library in C: compiled once a machine and user, and loaded."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import signal
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic

SOURCES = tuple(
    Path(__file__).parent / name
    for name in ("collective.c", "move.c", "queues.c", "engine.c", "tape.c", "add.c")
)
HEADERS = tuple(Path(__file__).parent / name for name in ("messages.h", "add.h"))
FLAGS = ("-std=gnu11", "-O3", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")
COMPILE_S = 60.0
"""A compiler that hangs is given up after that."""
_INT, _LONG, _REAL, _POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_REALS, _INTS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)


class NotBuiltError(Exception):
    """The library cannot be had here; says why."""


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The library, compiled where it is not there yet. Raises NotBuiltError."""
    try:
        return _kept_or_compiled()
    except OSError as error:
        raise NotBuiltError(f"its library cannot be kept: {error}") from None


def _kept_or_compiled() -> ctypes.CDLL:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NotBuiltError("this machine has no C compiler (on Debian: apt-get install gcc libc6-dev)")
    deadline = monotonic() + COMPILE_S
    name = f"messages-{_fingerprint(compiler, deadline)}"
    folder = _cache()
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="netprobe-native-", ignore_cleanup_errors=True) as own:
            return _compile(compiler, Path(own) / name, deadline)  # stays when its file is gone
    return _kept(folder, name) or _compile(compiler, folder / name, deadline)


def _kept(folder: Path, name: str) -> ctypes.CDLL | None:
    """What was compiled before. A file that is not whole is removed: to load one may end the process."""
    for path in folder.glob(f"{name}-*.so"):
        try:
            if path.stem == f"{name}-{_digest(path)}":
                return _load(path)
        except (OSError, NotBuiltError):
            pass
        with suppress(OSError):
            path.unlink()
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


def _fingerprint(compiler: str, deadline: float) -> str:
    """Of what the library is made from, by what, and for which machine: homes are shared among unlike hosts."""
    found = hashlib.sha256()
    for source in (*SOURCES, *HEADERS):
        found.update(source.read_bytes())
    said = _said([compiler, "--version"], deadline)
    found.update(repr((said, FLAGS, platform.machine(), platform.libc_ver())).encode())
    return found.hexdigest()[:24]


def _cache() -> Path | None:
    """A folder that only this user writes to; None where there is none."""
    try:
        # RuntimeError: a user that the system does not know, as in some containers, has no home.
        base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        folder = Path(base) / "netprobe"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError):
        return None
    own = about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if own and os.access(folder, os.W_OK) else None


def _compile(compiler: str, path: Path, deadline: float) -> ctypes.CDLL:
    """Compile into a file of its own first: ranks that start at once do not see each other's halves.

    It is kept as ``path``, a mark of its content and ``.so``, where it can be loaded. Raises NotBuiltError and OSError.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".so")
    os.close(handle)
    made = Path(name)
    try:
        _said([compiler, *FLAGS, "-o", name, *map(str, SOURCES)], deadline)
        loaded = _load(made)
        made.replace(path.with_name(f"{path.name}-{_digest(made)}.so"))
    finally:
        made.unlink(missing_ok=True)
    return loaded


def _said(argv: list[str], deadline: float) -> bytes:
    """What a compiler prints. Raises NotBuiltError where it fails, or has not ended at ``deadline``."""
    try:
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        ) as process:  # fmt: skip
            try:
                out, said = process.communicate(timeout=max(deadline - monotonic(), 0.1))
            except BaseException:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what it has started
                raise
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuiltError(f"{argv[0]} does not run: {error}") from None
    if process.returncode:
        text = " ".join(said.decode(errors="replace").split())[:200]
        raise NotBuiltError(f"{argv[0]} could not compile it: {text}")
    return out


def _load(path: Path) -> ctypes.CDLL:
    """Raises NotBuiltError for what is no such library."""
    try:
        found = ctypes.CDLL(str(path))
        _declare(found)
    except (OSError, AttributeError) as error:
        raise NotBuiltError(f"its library cannot be loaded: {error}") from None
    return found


def _declare(found: ctypes.CDLL) -> None:
    for name, result, arguments in (
        ("np_tape_new", _POINTER, [_INT, _POINTER, _INTS, _INTS, _INT]),
        ("np_tape_free", None, [_POINTER]),
        ("np_engine_new", _POINTER, [_INT, _INTS]),
        ("np_engine_free", None, [_POINTER]),
        ("np_begin", _INT, [_POINTER, _POINTER, _POINTER, _INT, _INT, ctypes.c_uint32]),
        ("np_go", _INT, [_POINTER, _REAL, _REAL]),
        ("np_missing", _INT, [_POINTER, _INTS]),
        ("np_stop", None, [_POINTER]),
        ("np_told", None, [_POINTER, _REALS, _REALS, _INTS, _INTS]),
        ("np_waited", None, [_POINTER, _REALS]),
        ("np_send_buffer", _INT, [_REAL, _REAL, _REAL, _INT]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
