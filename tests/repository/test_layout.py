"""The layout holds together: folders, links, layers, and one way to import a module."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.project import BIN, ROOT, files_of_project, folders_of_setup

MEBIBYTE = 1 << 20


def settings() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def layers_of_contract() -> list[str]:
    """The names in the layers of the import contract, top first."""
    found = re.search(r"^layers = \[(.*?)^\]", settings(), re.DOTALL | re.MULTILINE)
    assert found
    return [name for layer in re.findall(r'"([^"]*)"', found[1]) for name in layer.split(" | ")]


def test_netprobe_links_to_each_folder_and_to_nothing_else() -> None:
    inside = {path.name: path for path in (ROOT / "netprobe").iterdir()}
    if not any(path.is_symlink() for path in inside.values()):
        pytest.skip("this clone was made without symbolic links")
    links = {name: str(path.readlink()) for name, path in inside.items() if path.is_symlink()}
    assert links == {folder: f"../{folder}" for folder in (*folders_of_setup(), "docs")}
    packages = {name for name, path in inside.items() if path.is_dir() and not path.is_symlink()}
    assert packages <= {"__pycache__"}


def test_each_folder_has_a_layer_and_a_banned_name() -> None:
    folders = sorted(folders_of_setup())
    assert sorted(layers_of_contract()) == folders
    assert sorted(re.findall(r"^(\w+)\.msg = \"import netprobe\.\1\"", settings(), re.MULTILINE)) == folders


def test_each_package_of_the_root_is_in_setup() -> None:
    tools = {"netprobe", "tests", "bench"}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - tools
    assert packages == set(folders_of_setup())


@pytest.mark.parametrize("folder", folders_of_setup())
def test_importing_a_folder_by_its_bare_name_is_refused(folder: str) -> None:
    sample = f"import {folder}\nfrom {folder}.some import thing\n\nprint({folder}, thing)\n"
    done = subprocess.run(
        [BIN / "ruff", "check", "--no-cache", "--select=TID251", "--stdin-filename=bench/sample.py", "-"],
        cwd=ROOT,
        input=sample,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("TID251") >= 2


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "lint-imports", "--no-cache"], cwd=tree, capture_output=True, text=True, check=False
    )


def test_a_folder_outside_the_layers_breaks_the_contract(tree: Path) -> None:
    (tree / "novel").mkdir()
    (tree / "novel" / "__init__.py").write_text("")
    (tree / "netprobe" / "novel").symlink_to("../novel")
    done = lint_imports(tree)
    assert done.returncode != 0
    assert "novel" in done.stdout + done.stderr


def test_an_import_up_the_layers_breaks_the_contract(tree: Path) -> None:
    (tree / "core" / "upwards.py").write_text("import netprobe.pipeline\n")
    done = lint_imports(tree)
    assert done.returncode != 0
    assert "netprobe.core.upwards" in done.stdout + done.stderr


def test_a_cycle_between_siblings_breaks_the_contract_also_inside_functions(tree: Path) -> None:
    inside = "def run() -> None:\n    import netprobe.core.second_half  # noqa: F401\n"
    (tree / "core" / "first_half.py").write_text(inside)
    (tree / "core" / "second_half.py").write_text("import netprobe.core.first_half  # noqa: F401\n")
    done = lint_imports(tree)
    assert done.returncode != 0
    assert "first_half" in done.stdout and "second_half" in done.stdout


def check_sizes(tree: Path) -> list[str]:
    """The faults that scripts/check_sizes.py finds in a tree."""
    done = subprocess.run(
        [sys.executable, tree / "scripts" / "check_sizes.py"], capture_output=True, text=True, check=False
    )
    faults = done.stderr.splitlines()
    assert done.returncode == (1 if faults else 0)
    return faults


def test_files_functions_and_parameter_lists_that_grow_too_large_are_refused(tree: Path) -> None:
    names = ", ".join(f"p{i}" for i in range(9))
    (tree / "core" / "long_file.py").write_text("x = 1\n" * 401)
    (tree / "core" / "long_function.py").write_text("def run():\n" + "    x = 1\n" * 80)
    (tree / "core" / "long_list.py").write_text(f"def run({names}):\n    pass\n")
    (tree / "lab" / "switch" / "long_file.c").write_text("int x;\n" * 401)
    (tree / "core" / "just_right.py").write_text(
        f"def run({names[:-4]}):\n" + "    x = 1\n" * 79 + "x = 1\n" * 320
    )
    made = ("core/long_", "core/just_right", "lab/switch/long_")  # `make check` looks at the rest
    found = sorted(fault.split(":")[0] for fault in check_sizes(tree))
    assert [path for path in found if path.startswith(made)] == [
        "core/long_file.py",
        "core/long_function.py",
        "core/long_list.py",
        "lab/switch/long_file.c",
    ]


@pytest.mark.slow
def test_a_heavy_import_at_the_top_of_a_module_is_refused(tree: Path) -> None:
    (tree / "embed" / "heavy.py").write_text("import torch\n")
    (tree / "plan" / "misplaced.py").write_text("def run() -> None:\n    import sklearn.cluster\n")
    (tree / "probe" / "agent" / "foreign.py").write_text("import numpy\n")
    done = subprocess.run(
        [sys.executable, tree / "scripts" / "check_imports.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "embed/heavy.py:1: import torch inside the function that needs it" in done.stderr
    assert "plan/misplaced.py:2: sklearn belongs in embed and cluster only" in done.stderr
    assert "probe/agent/foreign.py:1: the agent imports the standard library only, not numpy" in done.stderr


def test_the_agent_is_written_in_the_grammar_of_python_3_8() -> None:
    modules = sorted((ROOT / "probe" / "agent").rglob("*.py"))
    assert modules
    for path in modules:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 8))


def test_no_file_is_large() -> None:
    assert [path for path in files_of_project() if path.stat().st_size > MEBIBYTE] == []


def test_no_file_names_a_package_registry() -> None:
    # Written in parts, so that this file is not the one found. Where packages come from is the user's choice.
    hosts = [b"pypi." + b"org", b"python" + b"hosted.org", b"download." + b"pytorch.org", b"npmjs." + b"org"]
    hosts += [b"deb." + b"debian.org", b"archive." + b"ubuntu.com", b"conda." + b"anaconda.org"]
    named = [
        (path.relative_to(ROOT).as_posix(), host.decode())
        for path in files_of_project()
        for host in hosts
        if host in path.read_bytes()
    ]
    assert named == []


def test_scripts_can_be_run() -> None:
    scripts = [*(ROOT / "scripts").glob("*.sh"), ROOT / ".ci" / "run"]
    assert [path for path in scripts if path.is_file() and not os.access(path, os.X_OK)] == []


def test_the_readme_holds_no_placeholder() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [word for word in ("DEMO_OUTPUT", "BENCH_TABLES") if word in text]
