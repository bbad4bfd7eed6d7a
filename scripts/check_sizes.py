"""Check that no file and no function has grown past what a reader takes in at once.

- a file of code has at most 400 lines (Python, C, tests);
- a function has at most 80 lines and 8 parameters.

Not counted: the parameters of CLI commands (typer reads options from them) and of scikit-learn estimators
(scikit-learn's convention), and both limits for kernels that numba compiles, which cannot pass records around.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
MAX_PARAMETERS = 8

SKIPPED = {"build", "dist", "docs"}
COMMANDS = "cli/commands/"
ESTIMATORS = ("cluster/balanced/estimator.py",)
KERNELS = ("plan/search/anneal_kernels.py", "plan/search/improve_ring.py", "plan/simulate/engine_kernels.py")


def files() -> Iterator[Path]:
    """Every file of code in the folders of the root, each where it lies and not through the links of netprobe/."""
    for folder in sorted(ROOT.iterdir()):
        if folder.is_dir() and folder.name not in SKIPPED and not folder.name.startswith("."):
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(ROOT)
                if folder.name == "netprobe" and len(inside.parts) > 2:
                    continue
                if path.suffix in (".py", ".c", ".h") and path.is_file():
                    yield path


def faults_of(path: Path) -> Iterator[str]:
    """What is too large in one file."""
    place = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{place}: {lines} lines, at most {MAX_FILE_LINES}"
    if path.suffix != ".py" or place in KERNELS:
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        where = f"{place}:{node.lineno}: {node.name}"
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            yield f"{where} has {length} lines, at most {MAX_FUNCTION_LINES}"
        given = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([name for name in given if name not in ("self", "cls")])
        free = (place.startswith(COMMANDS) and is_command(node)) or place in ESTIMATORS
        if count > MAX_PARAMETERS and not free:
            yield f"{where} has {count} parameters, at most {MAX_PARAMETERS}"


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether typer calls the function: decorated, or public in a file of commands."""
    return bool(node.decorator_list) or not node.name.startswith("_")


def main() -> int:
    found = list(files())
    faults = [fault for path in found for fault in faults_of(path)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"no file or function of {len(found)} files is too large")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
