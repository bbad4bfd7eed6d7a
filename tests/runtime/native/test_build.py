"""The library compiled where it runs."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from netprobe.runtime.native import build
from netprobe.runtime.native.build import NotBuiltError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "netprobe"


@pytest.fixture
def own_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the compiler is looked for first, a script's text is to be put."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "cc"
    path.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return path


def never(*_: object) -> None:
    pytest.fail("compiled again")


def test_it_is_compiled_once_and_for_its_user_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build._kept_or_compiled()
    assert cache.stat().st_mode & 0o777 == 0o700
    (made,) = cache.iterdir()
    monkeypatch.setattr(build, "_compile", never)
    assert build._kept_or_compiled()._name == str(made)


@pytest.mark.parametrize("left", [0, 1000, 20_000, -1])
def test_a_file_that_is_not_whole_is_made_anew_and_never_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """As a full disk, or a power cut, leaves it; -1: a bit is another."""
    build._kept_or_compiled()
    (made,) = cache.iterdir()
    whole = made.read_bytes()
    bad = bytearray(whole if left < 0 else whole[:left])
    if left < 0:
        bad[len(bad) // 2] ^= 1
    made.unlink()  # this process has it loaded: not the same file
    made.write_bytes(bad)
    build._kept_or_compiled()
    assert made.read_bytes() == whole
    monkeypatch.setattr(build, "_compile", never)
    build._kept_or_compiled()


def test_another_source_is_another_library(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build._kept_or_compiled()
    copies = [Path(shutil.copy(source, tmp_path)) for source in (*build.SOURCES, *build.HEADERS)]
    copies[0].write_text(copies[0].read_text() + "/* changed */\n")
    monkeypatch.setattr(build, "SOURCES", tuple(copies[: len(build.SOURCES)]))
    build._kept_or_compiled()
    assert len(list(cache.iterdir())) == 2


def test_a_folder_that_others_write_to_is_not_trusted(cache: Path) -> None:
    """A library that someone else put there would be run."""
    cache.mkdir()
    cache.chmod(0o777)
    made = Path(build._kept_or_compiled()._name)
    assert made.parent != cache
    assert not made.exists()
    assert not list(cache.iterdir())


def test_a_user_without_a_home_has_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container any number may be the user's."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def unknown(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    assert not Path(build._kept_or_compiled()._name).exists()


def test_a_cache_that_is_a_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not Path(build._kept_or_compiled()._name).exists()


def test_without_a_compiler_it_says_what_to_install(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    build.library.cache_clear()
    with pytest.raises(NotBuiltError, match="no C compiler"):
        build.library()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("printf '\\377\\376 wrong' >&2; exit 1", "could not compile it: .* wrong"),
        ("kill -9 $$", "could not compile it"),
        ("exit 0", "cannot be loaded"),  # and nothing is there
        ('while [ "$1" != -o ]; do shift; done; echo garbage > $2', "cannot be loaded"),
    ],
)
def test_a_compiler_that_fails_leaves_nothing(
    cache: Path, own_compiler: Path, script: str, words: str
) -> None:
    own_compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\n{script}\n')
    with pytest.raises(NotBuiltError, match=words):
        build._kept_or_compiled()
    assert not list(cache.iterdir())


@pytest.mark.parametrize("when", ["--version", "-std=gnu11"])
def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(
    cache: Path, own_compiler: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    told = own_compiler.with_name("child")
    own_compiler.write_text(f'#!/bin/sh\n[ "$1" = {when} ] || exit 0\nsleep 60 &\necho $! > {told}; wait\n')
    monkeypatch.setattr(build, "COMPILE_S", 0.5)
    with pytest.raises(NotBuiltError, match="timed out"):
        build._kept_or_compiled()
    assert not cache.exists() or not list(cache.iterdir())
    child = Path(f"/proc/{told.read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    while child.exists() and child.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
