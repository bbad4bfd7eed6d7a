"""Run the benchmarks whose tables docs/figures.md shows, and write what they print into the page.

    scripts/figures.py [NAME...] [--list]

A table stands between the lines ``<!-- bench: NAME [OPTION...] -->`` and ``<!-- end of NAME -->``; the first is its
command. Named tables are run, or all. Each is written as soon as it has ended, with its commit, date, seconds and the
load of the machine, so that an interrupted run loses nothing; the table of a benchmark that fails stays as it was, and
the end is an error. Text outside these lines is never touched.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "figures.md"
MOST_S = 3600
"""A benchmark takes minutes; one that takes an hour hangs."""

BLOCK = re.compile(
    r"^<!-- bench: (?P<command>(?P<name>\w+)[^\n]*?) -->\n(?P<body>.*?)^<!-- end of (?P=name) -->\n",
    re.M | re.S,
)
HEADING = re.compile(r"\A[^\n|][^\n]*\n\(\d{4}-\d\d-\d\d, [^\n]*\)\n+")
"""The title and machine that a benchmark prints first; the page has its own line for them."""


@dataclass(frozen=True)
class Figure:
    """A table of the page."""

    name: str
    command: str
    body: str

    @property
    def arguments(self) -> list[str]:
        """Options of the benchmark."""
        return shlex.split(self.command)[1:]


def figures(page: str) -> list[Figure]:
    """The page's tables in its order; ``ValueError`` where a line that begins a table has no end."""
    found = [Figure(block["name"], block["command"], block["body"]) for block in BLOCK.finditer(page)]
    begun = page.count("<!-- bench: ")
    if begun != len(found) or page.count("<!-- end of ") != begun:
        raise ValueError(f"{begun} tables begin, but {len(found)} of them end with a line of their own name")
    return found


def written(page: str, figure: Figure, printed: str, stamp: str) -> str:
    """The page with what a benchmark printed in place of the table it had."""
    body = HEADING.sub("", printed).strip("\n")
    new = f"<!-- bench: {figure.command} -->\n\n{stamp}\n\n{body}\n\n<!-- end of {figure.name} -->\n"
    old = f"<!-- bench: {figure.command} -->\n{figure.body}<!-- end of {figure.name} -->\n"
    if page.count(old) != 1:
        raise ValueError(f"{figure.command}: stands {page.count(old)} times on the page, not once")
    return page.replace(old, new)


def commit() -> str:
    """The checkout's commit, and whether anything but the page differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout

    changed = [line for line in git("status", "--porcelain").splitlines() if line[3:] != "docs/figures.md"]
    return git("rev-parse", "--short=9", "HEAD").strip() + (" with changes" if changed else "")


def run(figure: Figure) -> str | None:
    """Run the benchmark and write its table; otherwise the reason why not."""
    began, load = time.monotonic(), os.getloadavg()[0]
    try:
        done = subprocess.run(
            [sys.executable, str(ROOT / "bench" / f"{figure.name}.py"), *figure.arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {MOST_S} s"
    if done.returncode != 0:
        return f"ended with code {done.returncode}"
    if not any(line.startswith("|") for line in done.stdout.splitlines()):
        return "printed no table"
    stamp = (
        f"*{commit()}, {datetime.now(timezone.utc):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, "
        f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after, {time.monotonic() - began:.0f} s*"
    )
    # Read again: a benchmark takes minutes, in which somebody may have edited the page.
    page = PAGE.read_text(encoding="utf-8")
    now = next((one for one in figures(page) if one.command == figure.command), None)
    if now is None:
        return "is no longer on the page"
    PAGE.write_text(written(page, now, done.stdout, stamp), encoding="utf-8")
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Run the tables that are named."""
    parser = argparse.ArgumentParser(
        description="Run benchmarks and write their tables into docs/figures.md."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables; without any, all")
    parser.add_argument("--list", action="store_true", help="print their commands and run none")
    given = parser.parse_args(words)
    all_ = figures(PAGE.read_text(encoding="utf-8"))
    unknown = sorted(set(given.names) - {one.name for one in all_})
    if unknown:
        print(f"figures: no table of docs/figures.md is named {', '.join(unknown)}", file=sys.stderr)
        return 2
    chosen = [one for one in all_ if not given.names or one.name in given.names]
    if given.list:
        for one in chosen:
            print(one.command)
        return 0
    failed = 0
    for i, one in enumerate(chosen, 1):
        print(f"{i} of {len(chosen)}: {one.command}", file=sys.stderr, flush=True)
        reason = run(one)
        if reason is not None:
            failed += 1
            print(f"figures: {one.command}: {reason}; its table stays as it was", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
