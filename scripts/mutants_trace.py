"""A plugin of pytest for scripts/mutants.py: which functions of a folder each
test calls, what it takes, and whether it starts a process."""

from __future__ import annotations

import cProfile
import json
import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent  # a test may have gone to another folder
TRACED = "traced.json"
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec")

_tests: list[tuple[str, float, list[str], bool]] = []
_started: list[str] = []


def _on_event(event: str, _arguments: object) -> None:
    if event in STARTS:
        _started.append(event)


sys.addaudithook(_on_event)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Trace calls while a test runs, set-up and end included."""
    folder = os.environ.get("MUTANTS_OF")
    if folder is None:
        yield
        return
    inside = tuple(os.sep + folder.replace("/", os.sep) + end for end in (os.sep, ".py"))
    in_threads: set[types.CodeType] = set()

    def entered(frame: types.FrameType, event: str, _argument: object) -> None:
        if event == "call":
            in_threads.add(frame.f_code)

    _started.clear()
    began = time.monotonic()
    profile = cProfile.Profile(builtins=False)  # of this thread, and quicker than a function in Python
    threading.setprofile(entered)
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        threading.setprofile(None)
    codes = in_threads | {one.code for one in profile.getstats() if isinstance(one.code, types.CodeType)}
    called = {
        (code.co_filename, code.co_firstlineno)
        for code in codes
        if any(one in code.co_filename for one in inside)
    }
    names = []
    for name, line in called:
        path = Path(name).resolve()
        if path.is_relative_to(ROOT):
            names.append(f"{path.relative_to(ROOT).as_posix()}:{line}")
    _tests.append((item.nodeid, time.monotonic() - began, sorted(names), bool(_started)))


def write() -> None:
    """Write what the tests called."""
    (ROOT / TRACED).write_text(json.dumps(_tests), encoding="utf-8")
