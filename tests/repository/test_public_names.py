"""No public name is hidden by a folder of the same name once that folder is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.repository.project import ROOT

# Importing a sub-package sets it as an attribute of its parent, which then wins over the parent's __getattr__.
SCRIPT = """
import importlib, pkgutil, sys, types
root = importlib.import_module(sys.argv[1])
found = pkgutil.walk_packages(root.__path__, root.__name__ + ".")
packages = [root] + [importlib.import_module(module.name) for module in found if module.ispkg]
for package in packages:
    for name in getattr(package, "__all__", ()):
        if isinstance(getattr(package, name), types.ModuleType):
            print(f"{package.__name__}.{name}")
print(len(packages), file=sys.stderr)
"""


def hidden_names(package: str, path: Path) -> tuple[list[str], int]:
    """The public names of the package that are modules, and how many packages were imported."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, package],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(path)},
    )
    return ended.stdout.split(), int(ended.stderr.split()[-1])


def test_no_public_name_is_that_of_a_folder() -> None:
    names, packages = hidden_names("netprobe", ROOT)
    assert names == []
    assert packages > 20


def test_a_public_name_hidden_by_a_folder_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "spoiled" / "scan"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("def scan(): ...\n")
    (tmp_path / "spoiled" / "__init__.py").write_text(
        "__all__ = ['scan']\n"
        "def __getattr__(name):\n"
        "    if name != 'scan':\n"
        "        raise AttributeError(name)\n"
        "    from spoiled.scan import scan\n"
        "    return scan\n"
    )
    assert hidden_names("spoiled", tmp_path) == (["spoiled.scan"], 2)
