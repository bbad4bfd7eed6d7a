"""Check what import-linter's layers cannot say: which folder may use which heavy package, and how.

- torch, scikit-learn, scapy and numba are imported inside the function that needs them, never when a
  module loads, so that ``netprobe --help`` stays quick and the base install works without them.
  A class that derives from a heavy package's cannot wait so: its module is in LATE, and is itself
  imported inside a function wherever it is used.
- Each heavy package has its folders, and so have typer and rich.
- The agent in probe/agent/ runs on hosts where nothing is installed: the standard library, and itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Package -> the folders that may import it. None at all may do so while the module loads, if heavy.
HOMES = {
    "torch": ("embed", "runtime"),
    "sklearn": ("embed", "cluster"),
    "scapy": ("probe",),
    "numba": ("core", "embed", "cluster", "plan"),
    "pandas": ("core",),
    "xarray": ("core",),
    "typer": ("cli",),
    "rich": ("cli", "report"),
}
HEAVY = {"torch", "sklearn", "scapy", "numba", "pandas", "xarray"}
# Packages that a folder may import in one module only (and in what travels with the agent), so that
# there is one place to look.
ONE_MODULE = {("embed", "torch"), ("probe", "scapy")}
# Modules that may import a heavy package as they load, and must be imported late in their turn.
LATE = {"netprobe.cluster.balanced.estimator"}
AGENT = ROOT / "probe" / "agent"
AGENT_NAME = "netprobe.probe.agent"


def imports(tree: ast.AST, nested: bool = False) -> Iterator[tuple[int, str, bool]]:
    """Each import of a module: its line, the module's full name, whether it waits inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, nested) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or "", nested
        elif isinstance(node, ast.If) and is_type_checking(node.test):
            # Never run: as good as nested, and the folder's rule still holds.
            yield from imports(node, nested=True)
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, nested or inside)


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def faults_of(path: Path, users: dict[tuple[str, str], set[Path]]) -> Iterator[str]:
    """The faults of one module; ``users`` collects (folder, package) -> the modules that import it."""
    place = path.relative_to(ROOT)
    folder = place.parts[0]
    name = ".".join(("netprobe", *place.with_suffix("").parts))
    for line, module, nested in imports(ast.parse(path.read_text(encoding="utf-8"))):
        if module in LATE and not nested:
            yield f"{place}:{line}: import {module} inside the function that needs it"
        package = module.partition(".")[0]
        if package in HOMES:
            if not path.is_relative_to(AGENT):
                users.setdefault((folder, package), set()).add(place)
            if folder not in HOMES[package]:
                yield f"{place}:{line}: {package} belongs in {' and '.join(HOMES[package])} only"
            if package in HEAVY and not nested and name not in LATE:
                yield f"{place}:{line}: import {package} inside the function that needs it"
        if path.is_relative_to(AGENT):
            ours = module == AGENT_NAME or module.startswith(AGENT_NAME + ".")
            if not ours and package not in sys.stdlib_module_names and package != "scapy":
                yield f"{place}:{line}: the agent imports the standard library only, not {module}"


def main() -> int:
    folders = sorted(path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")
    users: dict[tuple[str, str], set[Path]] = {}
    faults: list[str] = []
    count = 0
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            # netprobe/ holds a link to each folder; every module is read once, where it lies.
            if folder.name == "netprobe" and path.parent != folder:
                continue
            count += 1
            faults += faults_of(path, users)
    for folder_name, package in sorted(ONE_MODULE & users.keys()):
        modules = sorted(path.as_posix() for path in users[folder_name, package])
        if len(modules) > 1:
            faults.append(f"{package} belongs in one module of {folder_name}/, not in {', '.join(modules)}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"the imports of {count} modules are in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
