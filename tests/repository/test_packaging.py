"""What is installed is what lies in the folders, by whichever way it is built."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.repository.project import ROOT, build, folders_of_setup, names_in

pytest.importorskip("setuptools")


def files_to_ship(root: Path = ROOT) -> set[str]:
    """The modules and the data of the packages, under the names they have once installed."""
    shipped = {f"netprobe/{path.name}" for path in (root / "netprobe").glob("*.py")} | {"netprobe/py.typed"}
    for folder in folders_of_setup():
        for pattern in ("*.py", "*.c", "*.h", "*.yaml"):
            shipped |= {f"netprobe/{path.relative_to(root)}" for path in (root / folder).rglob(pattern)}
    return shipped | {f"netprobe/docs/{page.name}" for page in (root / "docs").glob("*.md")}


def shipped_in(names: list[str]) -> set[str]:
    return {name for name in names if ".dist-info/" not in name}


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_every_data_file(wheel_files: list[str]) -> None:
    assert shipped_in(wheel_files) == files_to_ship()


def test_the_wheel_holds_the_licence(wheel_files: list[str]) -> None:
    assert any(name.endswith("/LICENSE") for name in wheel_files)


@pytest.mark.slow
def test_a_source_archive_gives_the_same_wheel(tree: Path, tmp_path: Path, wheel_files: list[str]) -> None:
    with tarfile.open(build("sdist", tree, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert names_in(build("wheel", unpacked, tmp_path / "dist")) == wheel_files


def without_links(tree: Path) -> None:
    """Do to a tree what git does where there are no symbolic links: a text file in place of each."""
    for path in (tree / "netprobe").iterdir():
        if path.is_symlink():
            target = str(path.readlink())
            path.unlink()
            path.write_text(target)


def with_a_new_package(tree: Path) -> str:
    """Add a package and one inside it, in no list; the name of the inner one's file once installed."""
    new = tree / "probe" / "novel" / "inner"
    new.mkdir(parents=True)
    (new.parent / "__init__.py").write_text("")
    (new / "__init__.py").write_text("")
    return "netprobe/probe/novel/inner/__init__.py"


def install(wheel: Path, site: Path) -> Path:
    """Install a wheel, and nothing else, into an empty folder."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", f"--target={site}", str(wheel)],
        capture_output=True,
        check=True,
    )
    return site


def run_installed(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder``, with the copy in ``site`` before the editable install of this environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_clone_without_symbolic_links_installs_and_runs_new_packages_and_all(
    tree: Path, tmp_path: Path
) -> None:
    without_links(tree)
    new = with_a_new_package(tree)
    wheel = build("wheel", tree, tmp_path / "dist")
    shipped = shipped_in(names_in(wheel))
    assert shipped == files_to_ship(tree) and new in shipped

    site = install(wheel, tmp_path / "site")
    done = run_installed(
        site, tmp_path, "-c", "import netprobe.core, netprobe.cli; print(netprobe.core.__file__)"
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(site)
    printed = run_installed(site, tmp_path, "-m", "netprobe", "docs", "launchers")
    assert printed.stdout == (ROOT / "docs" / "launchers.md").read_text(encoding="utf-8"), printed.stderr


@pytest.mark.lab
def test_an_installed_wheel_makes_a_lab_and_scans_it(tree: Path, tmp_path: Path) -> None:
    site = install(build("wheel", tree, tmp_path / "dist"), tmp_path / "site")
    work = tmp_path / "work"
    work.mkdir()
    name = f"wheel{os.getpid() % 10000}"
    made = run_installed(site, work, "-m", "netprobe", "lab", "up", "pair", "--name", name)
    try:
        assert made.returncode == 0, made.stderr
        reached = run_installed(site, work, "-m", "netprobe", "lab", "exec", name, "true")
        assert reached.returncode == 0, reached.stderr
        scanned = run_installed(site, work, "-m", "netprobe", "scan", "--lab", "pair", "--out", "out")
        assert scanned.returncode == 0, scanned.stderr
        assert (work / "out" / "scan.json").is_file()
    finally:
        ended = run_installed(site, work, "-m", "netprobe", "lab", "down", name)
    assert ended.returncode == 0, ended.stderr
