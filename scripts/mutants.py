"""Mutation testing of one folder: is a fault that anybody could have made noticed by the folder's tests?

    make mutants FOLDER=embed [MUTANTS_ARGS='--count 60 --seed 1 --parallel 2 --limit 120']

In copies of the tree, one change at a time is made to the folder's code. Which one is drawn: first the kind of
change, each as likely as any other, then the place. The folder's tests are run on it, first those that call the
changed function (found in one traced run), cheapest first, up to the first failure, then all others. A mutant is
killed when a test fails or the time is up. Survivors are listed with their place and difference; those of which no
test can tell (equivalent ones) are named in docs/contributing/mutants.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).resolve().parent))
import contextlib

from mutations import Mutation, mutations_of  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parent.parent
DESELECTED = "not lab and not long"
LINES_A_MUTANT = 3
"""Of the difference, in the list of the survivors."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """A test of the folder: what it took, and the functions that it called, as "path:first line"."""

    name: str
    seconds: float
    functions: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a mutant ended: ``by`` is "a test", "time" or None (it survived)."""

    mutation: Mutation
    by: str | None
    difference: str


def tests_of(folder: str) -> list[str]:
    """Folders of the tests of a folder."""
    return [f"tests/{folder}"]


def copy_of_tree(to: Path) -> Path:
    """A private copy of what git knows and of what is new, links and all."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, to / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return to


def pytest_in(tree: Path, arguments: list[str], limit_s: float, **more: str) -> int | None:
    """The exit code of pytest in a copy of the tree; None when its time was up. Nothing that it started is left."""
    env = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'scripts'}", "PYTHONHASHSEED": "0", **more}
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *arguments]
    with (tree / "pytest.log").open("wb") as log:
        running = subprocess.Popen(argv, cwd=tree, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            return running.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def traced(tree: Path, folder: str) -> list[Test]:
    """Every test of the folder, run once. Raises SystemExit where the tests fail without any change."""
    out = tree / "traced.json"
    code = pytest_in(
        tree,
        ["-p", "mutants_trace", "-m", DESELECTED, *tests_of(folder)],
        1800,
        MUTANTS_OUT=str(out),
        MUTANTS_OF=folder,
    )
    if code != 0:
        raise SystemExit(
            f"the tests of {folder} fail as they are:\n{(tree / 'pytest.log').read_text()[-3000:]}"
        )
    return [Test(name=name, seconds=s, functions=frozenset(f)) for name, s, f in json.loads(out.read_text())]


def drawn(tree: Path, folder: str, count: int, seed: int) -> list[Mutation]:
    """``count`` mutations of the folder, or all where there are fewer."""
    kinds: dict[str, list[Mutation]] = {}
    for path in sorted((tree / folder).rglob("*.py")):
        for mutation in mutations_of(path.read_text(encoding="utf-8"), str(path.relative_to(tree))):
            kinds.setdefault(mutation.kind, []).append(mutation)
    rng = random.Random(seed)
    for found in kinds.values():
        rng.shuffle(found)
    chosen: list[Mutation] = []
    while len(chosen) < count and kinds:
        kind = rng.choice(sorted(kinds))
        chosen.append(kinds[kind].pop())
        if not kinds[kind]:
            del kinds[kind]
    return chosen


def tried(mutation: Mutation, tree: Path, tests: list[Test], limit_s: float) -> Verdict:
    """What the tests say of a mutation, in a copy of the tree that nothing else uses meanwhile."""
    path = tree / mutation.path
    original = path.read_text(encoding="utf-8")
    calling = sorted((t for t in tests if mutation.function in t.functions), key=lambda t: t.seconds)
    others = sorted((t for t in tests if mutation.function not in t.functions), key=lambda t: t.seconds)
    end = time.monotonic() + limit_s
    changed = mutation.difference(original, LINES_A_MUTANT)
    path.write_text(mutation.applied(original), encoding="utf-8")
    remove_compiled(path)
    try:
        for some in filter(None, (calling, others)):
            names = tree / "names.txt"
            names.write_text("\n".join(test.name for test in some) + "\n", encoding="utf-8")
            code = pytest_in(tree, [f"@{names}"], max(end - time.monotonic(), 5.0))
            if code != 0:
                return Verdict(mutation=mutation, by="time" if code is None else "a test", difference=changed)
        return Verdict(mutation=mutation, by=None, difference=changed)
    finally:
        path.write_text(original, encoding="utf-8")
        remove_compiled(path)


def remove_compiled(path: Path) -> None:
    """Python would take a changed file of the same second and length for the compiled one."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def main() -> None:
    """Draw, try, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="of the code, such as embed or probe/agent")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds of a mutant, then it counts as killed"
    )
    asked = parser.parse_args()
    folder = asked.folder.strip("/")
    with tempfile.TemporaryDirectory(prefix="netprobe-mutants-") as place:
        free: Queue[Path] = Queue()
        for number in range(asked.parallel):
            free.put(copy_of_tree(Path(place) / str(number) / "netprobe-tree"))
        tree = free.get()
        mutations = drawn(tree, folder, asked.count, asked.seed)
        if not mutations:
            raise SystemExit(f"{folder} holds nothing to change")
        tests = traced(tree, folder)
        free.put(tree)
        took = sum(test.seconds for test in tests)
        print(
            f"{folder}: {len(tests)} tests in {took:.0f} s; {len(mutations)} mutants of seed {asked.seed}",
            flush=True,
        )

        def one(mutation: Mutation) -> Verdict:
            mine = free.get()
            try:
                verdict = tried(mutation, mine, tests, asked.limit)
            finally:
                free.put(mine)
            print("survived" if verdict.by is None else f"killed by {verdict.by}", mutation, flush=True)
            return verdict

        with ThreadPoolExecutor(asked.parallel) as pool:
            verdicts = list(pool.map(one, mutations))
    survivors = [verdict for verdict in verdicts if verdict.by is None]
    for verdict in survivors:
        print(f"\n{verdict.mutation}\n{verdict.difference}")
    killed = len(verdicts) - len(survivors)
    late = sum(verdict.by == "time" for verdict in verdicts)
    print(
        f"\n{folder}: {killed} of {len(verdicts)} killed ({killed / len(verdicts):.0%}), {late} of them by the time"
    )


if __name__ == "__main__":
    main()
