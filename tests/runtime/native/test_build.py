"""The library compiled where it runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from netprobe.runtime.native import build
from netprobe.runtime.native.build import NotBuiltError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "netprobe"


def test_it_is_compiled_once_and_for_its_user_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build._compiled()
    assert made.parent == cache
    assert cache.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in cache.iterdir()] == [made.name]
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build._compiled() == made


def test_another_source_is_another_library(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build._compiled()
    copies = [Path(shutil.copy(source, tmp_path)) for source in (*build.SOURCES, *build.HEADERS)]
    copies[0].write_text(copies[0].read_text() + "/* changed */\n")
    monkeypatch.setattr(build, "SOURCES", tuple(copies[: len(build.SOURCES)]))
    assert build._compiled() != before


def test_a_folder_that_others_write_to_is_not_trusted(cache: Path) -> None:
    """A library that someone else put there would be run."""
    cache.mkdir()
    cache.chmod(0o777)
    made = build._compiled()
    assert made.parent != cache
    assert not made.exists()
    assert not list(cache.iterdir())


def test_without_a_compiler_it_says_what_to_install(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(NotBuiltError, match="no C compiler"):
        build._compiled()


def test_a_compiler_that_fails_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.c"
    bad.write_text("this is no C\n")
    monkeypatch.setattr(build, "SOURCES", (bad,))
    with pytest.raises(NotBuiltError, match="could not compile it"):
        build._compiled()
    assert not list(cache.iterdir())
