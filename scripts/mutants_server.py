"""Runs of pytest for scripts/mutants.py, each in a fork of one process that has imported all but netprobe.

Reads lines of JSON, ``{"arguments": [...], "seconds": {test: what it took}, "most": seconds or null}``, and answers
each with the exit code of pytest, or ``null`` where a test took far longer than before or the whole more than ``most``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

TIMES_AS_LONG, LONGER_S = 10.0, 15.0
"""A test may take so many times what it took unchanged, and so much more: a busy machine must not count as a fault."""
TO_COLLECT_S = 60.0
END = b"\0"
IMPORTED = (
    "pytest", "_pytest.assertion.rewrite", "hypothesis.strategies", "xdist", "numpy.testing", "scipy.optimize",
    "scipy.stats", "scipy.sparse.csgraph", "scipy.cluster.hierarchy", "array_api_compat", "pydantic", "yaml",
    "typer.testing", "rich.table", "jsonschema", "torch", "sklearn.cluster", "sklearn.manifold",
    "numba", "unittest.mock", "asyncio",
)  # fmt: skip


class Started:
    """The plugin of the child: says when each test begins."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.write(self.pipe, f"{nodeid}\n".encode())


def child(arguments: list[str], pipe: int) -> None:
    """Run pytest and end this process with its exit code."""
    import pytest

    os.setsid()
    log = os.open("pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 70
    with contextlib.suppress(BaseException):
        own = ["-q", "-x", "-p", "no:cacheprovider", "--no-header"]
        code = int(pytest.main([*own, *arguments], plugins=[Started(pipe)]))
    os.write(pipe, END)
    os._exit(code)


def watched(pid: int, pipe: int, seconds: dict[str, float], most: float | None) -> int | None:
    """The exit code of a child, or None where its time was up; nothing that it started is left."""
    last = time.monotonic() + (most or 1e9)
    until = time.monotonic() + TO_COLLECT_S
    seen = b""
    late = False
    while not seen.endswith(END):
        left = min(until, last) - time.monotonic()
        late = left <= 0 or not select.select([pipe], [], [], left)[0]
        got = b"" if late else os.read(pipe, 65536)
        if not got:  # it is late, or has been killed
            break
        seen += got
        begun = seen.decode(errors="replace").split("\n")[-2:-1]
        if begun:
            until = time.monotonic() + TIMES_AS_LONG * seconds.get(begun[0], TO_COLLECT_S) + LONGER_S
    code = None
    if not late:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return code


def main() -> None:
    """Serve until the input ends."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        asked = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            child(asked["arguments"], writing)
        os.close(writing)
        code = watched(pid, reading, asked["seconds"], asked["most"])
        os.close(reading)
        out.write(json.dumps(code) + "\n")


if __name__ == "__main__":
    Path("pytest.log").touch()
    main()
