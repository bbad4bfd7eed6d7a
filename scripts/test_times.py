"""Where the time of `make test` goes: by kind of test, and the folders that take most of it.

    python scripts/test_times.py KIND=FILE...

Each FILE holds ``seconds<TAB>path of the test`` a line, which tests/conftest.py writes where NETPROBE_TEST_TIMES names
a file: set-up and tear-down count with the test that they were made for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDERS = 10


def times_of(text: str) -> dict[str, float]:
    """Seconds by test."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        seconds, _, test = line.partition("\t")
        found[test] = found.get(test, 0.0) + float(seconds)
    return found


def folder_of(test: str) -> str:
    """``tests/plan/search`` of ``tests/plan/search/test_ring.py::test_x``; of a file right below tests/ that folder."""
    return "/".join(test.partition("::")[0].split("/")[:-1][:3])


def table(kinds: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Lines for the terminal."""
    lines = ["time by kind of test (of all workers together):"]
    for kind, times in kinds.items():
        lines.append(f"  {sum(times.values()):7.1f} s  {len(times):5} tests  {kind}")
    by_folder: Counter[tuple[str, str]] = Counter()
    for kind, times in kinds.items():
        for test, seconds in times.items():
            by_folder[folder_of(test), kind] += seconds  # type: ignore[assignment]
    lines.append(f"the {min(FOLDERS, len(by_folder))} costliest folders:")
    for (folder, kind), seconds in by_folder.most_common(FOLDERS):
        lines.append(f"  {seconds:7.1f} s  {folder} ({kind})")
    return lines


def main(arguments: Sequence[str]) -> None:
    """Print the table of the files that are there."""
    kinds = {}
    for argument in arguments:
        kind, _, path = argument.partition("=")
        if Path(path).is_file():
            kinds[kind] = times_of(Path(path).read_text())
    sys.stdout.write("\n".join(table(kinds)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
