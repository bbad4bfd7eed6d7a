"""The tasks of fping: its version with a try at one's own address, and a run. The controller reads what it prints."""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import os
import time

from .child import NOT_FOUND, Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = tuple[dict[str, Any], None]

PROGRAM = "fping"
ALSO_IN = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Where some systems keep it, and a login that is not an administrator's does not look."""
VERSION_S = 5.0
TRY_MS = "200"
MAX_OUTPUT_BYTES = 900 << 10
"""It still fits a frame."""
_SAID = 300


def version(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """What ``fping --version`` says, and the exit code and words of one echo to this host itself."""
    said, code = _run([_program(), "--version"], 1 << 14, VERSION_S)
    if code == NOT_FOUND:
        raise OSError(errno.ENOENT, "there is no program %s" % PROGRAM)
    argv = [_program(), _family(message["address"]), "-C", "1", "-t", TRY_MS, message["address"]]
    tried, tried_code = _run(argv, 1 << 14, VERSION_S)
    answer = {
        "output": _first_line(said),
        "code": code,
        "tried": _first_line(tried),
        "tried_code": tried_code,
    }
    return dict(answer, type="version"), None


def run(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """Run it to its end; the answer has all that it printed, both outputs in one."""
    argv = [_program(), _family(message["address"]), "-D", "-C", str(int(message["count"]))]
    argv += ["-p", _milliseconds(message["interval_ns"]), "-i", "1"]
    argv += ["-t", _milliseconds(message["timeout_ns"])]
    if message["bound"]:
        argv += ["-S", message["source"]]
    output, code = _run([*argv, message["address"]], MAX_OUTPUT_BYTES, float(message["limit_s"]))
    return {"type": "report", "code": code, "output": output}, None


def _program() -> str:
    for folder in os.environ.get("PATH", "").split(":"):
        if folder and os.access(folder + "/" + PROGRAM, os.F_OK):
            return PROGRAM
    for folder in ALSO_IN:
        if os.access(folder + "/" + PROGRAM, os.X_OK):
            return folder + "/" + PROGRAM
    return PROGRAM


def _run(argv: list[str], limit: int, seconds: float) -> tuple[str, int]:
    child = Child(argv)
    try:
        output = child.read(limit, time.monotonic() + seconds)
    except ValueError as error:
        raise OSError(errno.EIO, "%s: %s" % (PROGRAM, error)) from None
    # Other bytes would grow sixfold on their way, and fping never prints them.
    return output.decode("ascii", "replace").replace("\ufffd", "?"), child.process.returncode


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[0][:_SAID] if lines else ""


def _family(address: str) -> str:
    return "-6" if ":" in address else "-4"


def _milliseconds(ns: int) -> str:
    return "%g" % max(1.0, round(int(ns) / 1e6, 2))
