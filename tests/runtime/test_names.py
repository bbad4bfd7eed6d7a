"""The public names of netprobe.runtime: imported when they are used, with types that a checker sees."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import netprobe.runtime as runtime


def imported_for_types() -> dict[str, str]:
    """Name -> module, of the imports that only a type checker makes."""
    tree = ast.parse(Path(inspect.getfile(runtime)).read_text())
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: node.module or ""
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_public_name_has_its_type_and_comes_from_the_same_place() -> None:
    known = imported_for_types()
    assert set(runtime.__all__) == set(runtime._HOMES)
    for name, home in runtime._HOMES.items():
        assert known[name] == home
        assert getattr(runtime, name) is getattr(importlib.import_module(home), name)
