"""A change of a file is made in a process that has imported it, or said to need a new import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.repository.project import ROOT

BEFORE = """\
import functools
LIMIT = 3
TABLE = {"twice": lambda x: 2 * x}

def plain(x, by=1):
    return x + by

@functools.cache
def cached(x):
    return x - 1

class Thing:
    size = 4
    def method(self):
        return max(1, 2)
    @property
    def half(self):
        return self.size / 2
    @staticmethod
    def outer(x):
        def inner(y):
            return x < y
        return inner
"""


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Any:
    if sys.version_info < (3, 11):
        pytest.skip("a code object has no qualified name")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("mutants_patch")


@pytest.mark.parametrize(
    ("old", "new", "asked", "was", "now"),
    [
        ("x + by", "x - by", "m.plain(5)", 6, 4),
        ("x - 1", "x - 2", "m.cached(5)", 4, 3),
        ("max(1", "min(1", "m.Thing().method()", 2, 1),
        ("size / 2", "size * 2", "m.Thing().half", 2.0, 8),
        ("x < y", "x <= y", "m.Thing.outer(1)(1)", False, True),
        ("2 * x", "2 / x", "m.TABLE['twice'](4)", 8, 0.5),
        ("max(1", "max(10000,\n    1", "m.Thing().half", 2.0, 2.0),
        ("LIMIT = 3", "LIMIT = 4", None, None, None),
        ("by=1", "by=2", None, None, None),
        ("size = 4", "size = 5", None, None, None),
    ],
)
def test_functions_take_a_change_and_imports_do_not(
    patch: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    asked: str | None,
    was: Any,
    now: Any,
) -> None:
    path = tmp_path / "patched_module.py"
    path.write_text(BEFORE)
    spec = importlib.util.spec_from_file_location("patched_module", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "patched_module", module)
    spec.loader.exec_module(module)
    after = BEFORE.replace(old, new)
    if asked is None:
        with pytest.raises(patch.ImportedOtherwise):
            patch.patched(str(path), BEFORE, after)
        return
    held = module.plain
    if "cached" not in asked:  # its result would be kept
        assert eval(asked, {"m": module}) == was
    patch.patched(str(path), BEFORE, after)
    assert eval(asked, {"m": module}) == now
    assert held is module.plain
