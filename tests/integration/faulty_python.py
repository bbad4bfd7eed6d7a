"""Stands in for a host's Python and makes that host sick: FAULTS_JSON, then what Python would be given.

Used as ``--python "python3 faulty_python.py FAULTS"``. FAULTS maps a host's name to ``clock``: its wall clock
jumps to and fro by an hour every so many readings of it. The agent then runs in this process.
"""

from __future__ import annotations

import json
import os
import sys
import time

HOUR_NS = 3600 * 10**9


def jump(every: int) -> None:
    """Let the wall clock jump by an hour, and back, after ``every`` readings."""
    plain, count = time.time_ns, 0

    def time_ns() -> int:
        nonlocal count
        count += 1
        return plain() + (HOUR_NS if count // every % 2 else 0)

    time.time_ns = time_ns


def main() -> None:
    """Fall sick, then do what Python was asked to."""
    mine = json.loads(sys.argv[1]).get(os.uname().nodename, {})
    if "clock" in mine:
        jump(mine["clock"])
    code = sys.argv[sys.argv.index("-c") + 1]
    exec(code, {"__name__": "__main__", "__builtins__": __builtins__})


main()
