"""Copies of the project, to build from or to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.repository.project import ROOT, build_wheel, ignored


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the project, links kept, to build in or to spoil."""
    copy = tmp_path / "a clone"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
    return copy


@pytest.fixture(scope="session")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in a wheel of the project."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", symlinks=True, ignore=ignored)
    return build_wheel(folder / "tree", folder / "dist")
