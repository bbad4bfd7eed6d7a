"""Whether netprobe is installed once, and as itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.system.install import place, wrong_installs


def installed(site: Path, name: str, *, editable: Path | None = None) -> Path:
    """A folder for the path, with what an installer leaves there of a distribution of this name."""
    info = site / f"{name.replace('-', '_')}-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    if editable is not None:
        origin = {"url": editable.as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(origin))
    return site


def copied(folder: Path) -> Path:
    """A folder with an import package netprobe."""
    (folder / "netprobe").mkdir(parents=True)
    (folder / "netprobe" / "__init__.py").write_text("")
    return folder


def with_path(monkeypatch: pytest.MonkeyPatch, *entries: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(one) for one in entries])


def own() -> Path:
    here = place()
    assert here is not None
    return here.parent


def test_one_install_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = installed(tmp_path / "site", "netprobe-fleet", editable=own())
    with_path(monkeypatch, site, own(), tmp_path / "missing")
    assert wrong_installs() == []


def test_another_project_of_the_name_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = installed(tmp_path / "site", "netprobe")
    with_path(monkeypatch, site, own())
    (wrong,) = wrong_installs()
    assert "9.9" in wrong.found and str(site) in wrong.found
    assert "pip uninstall netprobe netprobe-fleet" in wrong.remedy
    assert run(["--version"]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1 and str(site) in said.err


@pytest.mark.parametrize("editable", [False, True])
def test_a_second_copy_is_noticed(editable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = copied(tmp_path / "a clone")
    site = installed(tmp_path / "site", "netprobe-fleet", editable=second if editable else None)
    with_path(monkeypatch, own(), *([site] if editable else [second]))
    (wrong,) = wrong_installs()
    assert str(second / "netprobe") in wrong.found and "pip uninstall netprobe-fleet" in wrong.remedy


def test_the_same_copy_by_a_link_is_no_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(own())
    with_path(monkeypatch, own(), tmp_path / "link")
    assert wrong_installs() == []


def test_what_is_broken_on_the_path_is_no_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = installed(tmp_path / "site", "netprobe-fleet")
    (site / "netprobe_fleet-9.9.dist-info" / "direct_url.json").write_text("{")
    with_path(monkeypatch, site, own())
    assert wrong_installs() == []
