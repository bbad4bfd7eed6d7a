"""A plugin of pytest for scripts/mutants.py: which functions of a folder each
test calls, what it takes, and whether it starts a process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    inside = os.sep + folder.replace("/", os.sep) + os.sep
    called: set[tuple[str, int]] = set()

    def trace(frame: object, _event: str, _argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if inside in code.co_filename:
            called.add((code.co_filename, code.co_firstlineno))

    _started.clear()
    began = time.monotonic()
    sys.settrace(trace)
    threading.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
    root = str(Path.cwd())
    names = []
    for name, line in called:
        path = Path(name).resolve()
        if path.is_relative_to(root):
            names.append(f"{path.relative_to(root).as_posix()}:{line}")
    _tests.append((item.nodeid, time.monotonic() - began, sorted(names), bool(_started)))


def pytest_sessionfinish() -> None:
    """Write what the tests called."""
    Path(TRACED).write_text(json.dumps(_tests), encoding="utf-8")
