"""Runs of pytest for scripts/mutants.py, each in a fork of a process that has imported all it can.

There are two of them: one that has imported pytest, numpy and the like, and one that has collected the folder's tests
too, and so imported netprobe. A change of what functions do is made in a fork of the second, in memory; a change
of what an import does takes a fork of the first, which imports and collects all that it needs.

    mutants_server.py -m MARKERS TEST_FOLDER...

reads lines of JSON, ``{"tests": [...], "seconds": {test: what it took}, "most": seconds, "change": {"path", "line",
"before", "after"}}``, and answers each with ``{"code", "cpu_s"}``: the exit code of pytest (``null`` where a test took
far longer than before or the whole more than ``most``), and the CPU seconds it took. Without ``tests`` those of every
n-th file are run and traced, by ``share``: [which, n]. The changed file is on the disk already; ``line`` is the first
of the changed function.
"""

from __future__ import annotations

import contextlib
import cProfile
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

TIMES_AS_LONG, LONGER_S = 10.0, 15.0
"""A test may take so many times what it took unchanged, and so much more: a busy machine must not count as a fault."""
TO_COLLECT_S = 60.0
LOG = Path(__file__).resolve().parent.parent / "pytest.log"
OTHER_IMPORT = 71
"""The exit code, beside those of pytest, of a fork that would have had to import the change."""
END = b"\0"
OPTIONS = ["-q", "-x", "-p", "no:cacheprovider", "--no-header"]
IMPORTED = (
    "pytest", "_pytest.assertion.rewrite", "hypothesis.strategies", "xdist", "numpy.testing", "scipy.optimize",
    "scipy.stats", "scipy.sparse.csgraph", "scipy.cluster.hierarchy", "array_api_compat", "pydantic", "yaml",
    "typer.testing", "rich.table", "jsonschema", "torch", "sklearn.cluster", "sklearn.manifold",
    "numba", "unittest.mock", "asyncio", "mutants_patch", "mutants_trace",
)  # fmt: skip
Asked = dict[str, Any]


class Started:
    """A plugin that says when each test begins, and writes down why one fails."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.write(self.pipe, f"{nodeid}\n".encode())

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            with LOG.open("a", encoding="utf-8") as log:
                log.write(f"{report.nodeid}\n{report.longreprtext}\n")


class Collected:
    """The plugin of the process that has collected: it serves in place of running the tests."""

    def __init__(self, asked: IO[str]) -> None:
        self.asked = asked
        self.importing: set[tuple[str, int]] = set()
        """Functions that imports called: file and first line."""
        self.profile = cProfile.Profile(builtins=False)
        self.profile.enable()

    def pytest_runtestloop(self, session: Any) -> bool:
        """Serve until the input ends."""
        self.profile.disable()
        codes = [one.code for one in self.profile.getstats() if isinstance(one.code, types.CodeType)]
        self.importing = {(os.path.realpath(code.co_filename), code.co_firstlineno) for code in codes}
        gc.collect()
        gc.freeze()  # a collection in a fork would copy all of it
        for line in self.asked:
            asked = json.loads(line)
            answer = in_a_fork(partial(self._run, session, asked), asked)
            self.asked.write(json.dumps(answer) + "\n")
            self.asked.flush()
        return True

    def _run(self, session: Any, asked: Asked, pipe: int) -> int:
        import mutants_patch  # type: ignore[import-not-found]
        import mutants_trace  # type: ignore[import-not-found]
        from _pytest.main import pytest_runtestloop

        change = asked["change"]
        if change is not None:
            if (os.path.realpath(change["path"]), change["line"]) in self.importing:
                return OTHER_IMPORT
            try:
                mutants_patch.patched(change["path"], change["before"], change["after"])
            except (mutants_patch.ImportedOtherwise, SyntaxError):
                return OTHER_IMPORT
        session.config.pluginmanager.register(Started(pipe))
        if asked["tests"] is None:
            session.config.pluginmanager.register(mutants_trace)
            session.items = _share(session.items, *asked["share"])
        else:
            items = {item.nodeid: item for item in session.items}
            session.items = [items[name] for name in asked["tests"]]
        failed = True
        with contextlib.suppress(BaseException):
            failed = not pytest_runtestloop(session) or session.testsfailed > 0
        if asked["tests"] is None:
            mutants_trace.write()
        return int(failed)


def _share(items: list[Any], number: int, of: int) -> list[Any]:
    """The tests of every ``of``-th file."""
    files = sorted({item.nodeid.split("::")[0] for item in items})
    return [item for item in items if files.index(item.nodeid.split("::")[0]) % of == number]


def without_netprobe(asked: Asked, pipe: int) -> int:
    """A run that collects by itself."""
    import pytest

    to_log()
    names = Path("names.txt")
    names.write_text("\n".join(asked["tests"]) + "\n", encoding="utf-8")
    return int(pytest.main([*OPTIONS, *sys.argv[1:3], f"@{names}"], plugins=[Started(pipe)]))


def in_a_fork(run: Callable[[int], int], asked: Asked) -> dict[str, Any]:
    """The answer of ``run`` (of the pipe to say on which test begins), and what it took; nothing it started is left."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        with contextlib.suppress(BaseException):
            os.close(reading)
            os.setsid()
            code = run(writing)
        os.write(writing, END)
        os._exit(code)
    os.close(writing)
    late = not ends_in_time(reading, asked["seconds"], asked["most"])
    os.close(reading)
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return {
        "code": None if late else os.waitstatus_to_exitcode(status),
        "cpu_s": used.ru_utime + used.ru_stime,
    }


def ends_in_time(pipe: int, seconds: dict[str, float], most: float) -> bool:
    """Whether the run that writes into ``pipe`` ends before one of its tests, or all of them, are late."""
    last = time.monotonic() + most
    until = time.monotonic() + TO_COLLECT_S
    seen = b""
    while not seen.endswith(END):
        left = min(until, last) - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return False
        got = os.read(pipe, 65536)
        if not got:  # it has been killed
            return True
        seen += got
        begun = seen.decode(errors="replace").split("\n")[-2:-1]
        if begun:
            until = time.monotonic() + TIMES_AS_LONG * seconds.get(begun[0], TO_COLLECT_S) + LONGER_S
    return True


def to_log() -> None:
    """What is printed from here on goes to pytest.log, and nothing can be read."""
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def collected(folders: list[str]) -> IO[str]:
    """Start the process that has collected these tests: where to ask it. Where it cannot, it ends."""
    mine, its = socket.socketpair()
    if os.fork() == 0:
        mine.close()
        with contextlib.suppress(BaseException):
            import pytest

            to_log()
            pytest.main([*OPTIONS, *folders], plugins=[Collected(its.makefile("rw"))])
        os._exit(0)
    its.close()
    return mine.makefile("rw")


def main() -> None:
    """Serve until the input ends."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    other = collected(sys.argv[1:])
    for line in sys.stdin:
        answer = ""
        with contextlib.suppress(OSError):  # it has ended: pytest.log says why
            other.write(line)
            other.flush()
            answer = other.readline()
        answer = answer or json.dumps({"code": 2, "cpu_s": 0.0}) + "\n"
        if json.loads(answer)["code"] == OTHER_IMPORT:
            asked = json.loads(line)
            answer = json.dumps(in_a_fork(partial(without_netprobe, asked), asked)) + "\n"
        out.write(answer)


if __name__ == "__main__":
    main()
