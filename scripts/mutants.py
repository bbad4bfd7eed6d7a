"""Mutation testing of one folder: is a fault that anybody could have made noticed by the folder's tests?

    make mutants FOLDER=embed [MUTANTS_ARGS='--count 60 --seed 1 --parallel 2']

In copies of the tree, one change at a time is made to the folder's code. Which one is drawn: first the kind of
change, each as likely as any other, then the place. The folder's tests are run on it up to the first failure, those
that call the changed function (found in one traced run) first, cheapest first; then those that could be reached
by it otherwise: of a file that shares what it made with one of the first, or that start a process.
A mutant is killed when a test fails or takes far longer than it took. Survivors are listed with their place and
difference; for those that no test can tell scripts/mutants_equivalent.json has a reason, found again by the path
and the difference, wherever the line has moved.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutants_trace import TRACED  # type: ignore[import-not-found]
from mutations import Mutation, mutations_of  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parent.parent
DESELECTED = "not lab and not long"
LABS = ("tests/integration/", "tests/repository/")
"""Their tests start labs, or look at the text of the code."""
TIMES_AS_LONG = 4.0
"""All tests of a mutant may take so many times what they took unchanged, or --limit seconds if that is more."""
MOST_TRACING_S = 3600.0
LINES_A_MUTANT = 3
"""Of the difference, in the list of the survivors."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """A test of the folder: what it took, the functions that it called, as "path:first line", and whether it starts
    a process, of which nothing more is known."""

    name: str
    seconds: float
    functions: frozenset[str]
    starts: bool

    @property
    def file(self) -> str:
        """That it stands in."""
        return self.name.split("::")[0]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a mutant ended: ``by`` is "a test", "time" or None (it survived)."""

    mutation: Mutation
    by: str | None
    difference: str
    cpu_s: float


def tests_of(folder: str, *, own_alone: bool = False) -> list[str]:
    """The tests of a folder; of a part of a layer (probe/agent) also the test files elsewhere that import it.

    Those of a file (pipeline/planning/held_out) are its folder's, and those elsewhere that import the file.
    """
    dotted = re.compile(rf"\bnetprobe\.{folder.replace('/', '[.]')}\b")
    own = f"tests/{folder.rpartition('/')[0] if is_a_file(ROOT, folder) else folder}"
    if "/" not in folder or own_alone:
        return [own]
    files = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py")))
    others = [
        f for f in files if not f.startswith((f"{own}/", *LABS)) and dotted.search((ROOT / f).read_text())
    ]
    return [own, *others]


def is_a_file(tree: Path, folder: str) -> bool:
    """Whether the changes are made to one file, named without its ending."""
    return (tree / f"{folder}.py").is_file()


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


class Tree:
    """A copy of the tree and a process that runs pytest there."""

    def __init__(self, path: Path, folder: str, tests: list[str], markers: str) -> None:
        self.path = copy_of_tree(path)
        search = f"{path}{os.pathsep}{path / 'scripts'}"
        env = {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "0", "MUTANTS_OF": folder}
        self.server = subprocess.Popen(
            [sys.executable, str(path / "scripts/mutants_server.py"), "-m", markers, *tests],
            cwd=path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def pytest(
        self, tests: list[Test] | tuple[int, int], most: float, change: dict[str, object] | None = None
    ) -> tuple[int | None, float]:
        """The exit code of a run, stopped at the first failure (None when a test's time, or ``most``, was up), and its
        CPU seconds. A share (which, of how many) of all tests is traced."""
        assert self.server.stdin is not None and self.server.stdout is not None
        asked: dict[str, object] = {"tests": None, "seconds": {}, "most": most, "change": change}
        if isinstance(tests, tuple):
            asked["share"] = tests
        else:
            asked["tests"] = [test.name for test in tests]
            asked["seconds"] = {test.name: test.seconds for test in tests}
        self.server.stdin.write(json.dumps(asked) + "\n")
        answer = json.loads(self.server.stdout.readline())
        return answer["code"], float(answer["cpu_s"])

    def close(self) -> None:
        """End the process."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()


def traced(tree: Tree, folder: str, share: tuple[int, int]) -> tuple[list[Test], float]:
    """A share of the folder's tests, run once, and the CPU seconds. Raises SystemExit where one fails unchanged."""
    code, cpu_s = tree.pytest(share, MOST_TRACING_S)
    if code != 0:
        log = (tree.path / "pytest.log").read_text()
        raise SystemExit(f"the tests of {folder} fail as they are:\n{log[-3000:]}")
    found = json.loads((tree.path / TRACED).read_text())
    return [Test(name=name, seconds=s, functions=frozenset(f), starts=p) for name, s, f, p in found], cpu_s


def drawn(tree: Path, folder: str, count: int, seed: int) -> list[Mutation]:
    """``count`` mutations of the folder, or all where there are fewer."""
    kinds: dict[str, list[Mutation]] = {}
    files = [tree / f"{folder}.py"] if is_a_file(tree, folder) else sorted((tree / folder).rglob("*.py"))
    for path in files:
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


def in_order(mutation: Mutation, tests: list[Test]) -> tuple[list[Test], list[Test]]:
    """The tests that call the changed function, and the others that it could reach; the quickest first."""
    inside = mutation.function.endswith(":0")  # outside of any function: when the file is imported

    def calls(test: Test) -> bool:
        if inside:
            return any(function.startswith(f"{mutation.path}:") for function in test.functions)
        return mutation.function in test.functions

    quickest = sorted(tests, key=lambda test: test.seconds)
    calling = [test for test in quickest if calls(test)]
    files = {test.file for test in calling}
    others = [t for t in quickest if not calls(t) and (inside or t.starts or t.file in files)]
    return calling, others


def tried(mutation: Mutation, tree: Tree, tests: list[Test], limit_s: float) -> Verdict:
    """What the tests say of a mutation, in a copy of the tree that nothing else uses meanwhile."""
    path = tree.path / mutation.path
    original = path.read_text(encoding="utf-8")
    changed = mutation.difference(original, LINES_A_MUTANT)
    new = mutation.applied(original)
    path.write_text(new, encoding="utf-8")
    remove_compiled(path)
    line = int(mutation.function.rsplit(":", 1)[1])
    change: dict[str, object] = {"path": mutation.path, "line": line, "before": original, "after": new}
    total = 0.0
    try:
        for some in filter(None, in_order(mutation, tests)):
            most = max(limit_s, TIMES_AS_LONG * sum(test.seconds for test in some))
            code, cpu_s = tree.pytest(some, most, change)
            total += cpu_s
            if code != 0:
                by = "time" if code is None else "a test"
                return Verdict(mutation=mutation, by=by, difference=changed, cpu_s=total)
        return Verdict(mutation=mutation, by=None, difference=changed, cpu_s=total)
    finally:
        path.write_text(original, encoding="utf-8")
        remove_compiled(path)


def remove_compiled(path: Path) -> None:
    """Python would take a changed file of the same second and length for the compiled one."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def reasons() -> dict[tuple[str, str], str]:
    """Why no test can tell a change, by its path and its difference without the spaces."""
    known = json.loads((ROOT / "scripts/mutants_equivalent.json").read_text(encoding="utf-8"))
    return {(one["path"], plain("\n".join(one["change"]))): one["reason"] for one in known}


def plain(difference: str) -> str:
    """Without the spaces, which a formatter may change."""
    return "".join(difference.split())


def main() -> None:
    """Draw, try, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="of the code, such as embed or probe/agent, or one file of it")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=400.0, help="seconds that all tests of a mutant may take in any case"
    )
    parser.add_argument("--quick", action="store_true", help="without tests marked slow: kills are too few")
    parser.add_argument("--own", action="store_true", help="with the tests of the folder alone")
    asked = parser.parse_args()
    folder = asked.folder.strip("/").removesuffix(".py")
    began = time.monotonic()
    chosen = tests_of(folder, own_alone=asked.own)
    markers = f"{DESELECTED} and not slow" if asked.quick else DESELECTED
    with tempfile.TemporaryDirectory(prefix="netprobe-mutants-") as place, contextlib.ExitStack() as stack:
        free: Queue[Tree] = Queue()
        trees = []
        for number in range(asked.parallel):
            tree = Tree(Path(place) / str(number) / "netprobe-tree", folder, chosen, markers)
            stack.callback(tree.close)
            free.put(tree)
            trees.append(tree)
        mutations = drawn(trees[0].path, folder, asked.count, asked.seed)
        if not mutations:
            raise SystemExit(f"{folder} holds nothing to change")
        with ThreadPoolExecutor(asked.parallel) as pool:
            shares = [(number, len(trees)) for number in range(len(trees))]
            parts = list(pool.map(traced, trees, [folder] * len(trees), shares))
        tests = [test for part, _ in parts for test in part]
        cpu_s = sum(part_cpu_s for _, part_cpu_s in parts)
        took = sum(test.seconds for test in tests)
        about = f"{len(tests)} tests in {took:.0f} s, {cpu_s:.0f} s of CPU"
        print(f"{folder}: {about}; {len(mutations)} mutants of seed {asked.seed}", flush=True)

        def one(mutation: Mutation) -> Verdict:
            mine = free.get()
            try:
                verdict = tried(mutation, mine, tests, asked.limit)
            finally:
                free.put(mine)
            how = "survived" if verdict.by is None else f"killed by {verdict.by}"
            print(f"{how} in {verdict.cpu_s:.1f} s of CPU: {mutation}", flush=True)
            if verdict.by is None:
                print(verdict.difference, flush=True)
            return verdict

        with ThreadPoolExecutor(asked.parallel) as pool:
            verdicts = list(pool.map(one, mutations))
    cpu_s += sum(verdict.cpu_s for verdict in verdicts)
    summarize(folder, verdicts, asked.seed, (time.monotonic() - began) / 60, cpu_s / 60)


def summarize(folder: str, verdicts: list[Verdict], seed: int, minutes: float, cpu: float) -> None:
    """Print the survivors, and a row of the table of docs/figures.md."""
    why = reasons()
    equivalent = 0
    for verdict in verdicts:
        if verdict.by is None:
            reason = why.get((verdict.mutation.path, plain(verdict.difference)))
            equivalent += reason is not None
            print(f"\n{verdict.mutation}: {reason or 'OPEN'}\n{verdict.difference}")
    killed = sum(verdict.by is not None for verdict in verdicts)
    late = sum(verdict.by == "time" for verdict in verdicts)
    print(
        "\n| folder | mutants | killed | by the time | equivalent | open | share killed | minutes | of CPU | seed |"
    )
    left = len(verdicts) - killed - equivalent
    print(
        f"| `{folder}` | {len(verdicts)} | {killed} | {late} | {equivalent} | {left} "
        f"| {killed / len(verdicts):.0%} | {minutes:.1f} | {cpu:.1f} | {seed} |"
    )


if __name__ == "__main__":
    main()
