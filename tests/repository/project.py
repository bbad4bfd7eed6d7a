"""The repository as the tests see it: its files, its folders, and wheels built from it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
BUILT = {
    ".git",
    ".venv",
    "build",
    "dist",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
    ".grimp_cache",
}


def ignored(_folder: str, names: Iterable[str]) -> set[str]:
    """For shutil.copytree: what is not part of the project."""
    return {name for name in names if name in BUILT or name.endswith(".egg-info") or name[:8] == "demo-out"}


def files_of_project() -> list[Path]:
    """Every file that is committed, links left out; or what looks like it, where there is no git."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listing.returncode == 0 and listing.stdout:
        paths = [ROOT / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]
    else:
        paths = []
        for folder, folders, names in os.walk(ROOT):
            skipped = ignored(folder, folders)
            folders[:] = [name for name in folders if name not in skipped]
            paths += [Path(folder) / name for name in names]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def folders_of_setup() -> tuple[str, ...]:
    """FOLDERS as setup.py has it."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FOLDERS":
            return tuple(ast.literal_eval(node.value))
    raise AssertionError("setup.py has no FOLDERS")


def build_wheel(source: Path, into: Path) -> list[str]:
    """Build a wheel from a tree or a source archive as pip does, without any network; the names of its files."""
    if not into.is_dir():
        into.mkdir(parents=True)
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", into, source],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = into.glob("*.whl")
    return names_in(wheel)


BACKEND = (
    "import sys; from setuptools import build_meta; getattr(build_meta, f'build_{sys.argv[1]}')(sys.argv[2])"
)


def build(kind: str, tree: Path, into: Path) -> Path:
    """Let setuptools build the ``wheel`` or the ``sdist`` of a tree, which pip would ask it for; the file."""
    into.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", BACKEND, kind, into], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = into.iterdir()
    return made


def names_in(wheel: Path) -> list[str]:
    """The names of a wheel's files."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())
