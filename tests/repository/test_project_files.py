"""What a visitor and an index read about the project: one version, extras, how to install, cite and report."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from netprobe._version import __version__
from tests.repository.project import ROOT


def extras() -> dict[str, list[str]]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (table,) = re.findall(
        r"^\[project\.optional-dependencies\]\n(.*?)^(?:\[|# \[)", text, re.DOTALL | re.MULTILINE
    )
    return {
        name: re.findall(r'"([A-Za-z][\w-]*)', packages)
        for name, packages in re.findall(r"^(\w+) = \[(.*?)\]$", table, re.DOTALL | re.MULTILINE)
    }


def test_torch_comes_only_where_it_is_asked_for() -> None:
    assert {name for name, packages in extras().items() if "torch" in packages} == {"map", "train"}


def test_all_holds_every_other_package_of_the_extras_for_users() -> None:
    found = extras()
    wanted = {package for name in ("map", "icmp", "train", "fast") for package in found[name]} - {"torch"}
    assert set(found["all"]) == wanted


def test_one_version_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.findall(
        r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert cited["version"] == __version__ and changes == [__version__]
    assert __version__ in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_a_citation_names_its_authors_and_the_licence() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["authors"] == [{"name": "the netprobe contributors"}]
    assert {"cff-version", "message", "title", "license"} <= set(cited)


@pytest.mark.parametrize("name", ["fault.md", "wish.md"])
def test_an_issue_template_has_a_name_and_says_what_for(name: str) -> None:
    text = (ROOT / ".github" / "ISSUE_TEMPLATE" / name).read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    assert {"name", "about"} <= set(yaml.safe_load(head)) and "**" in body


def test_the_readme_installs_it_in_its_fifth_line() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[4].strip().startswith("pip install '.[fast]'")


def test_the_base_of_the_image_can_be_chosen() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    steps = [line for line in lines if line and not line.startswith(("#", " "))]
    assert steps[0].startswith("ARG BASE=") and steps[1] == "FROM ${BASE}"


NOT_INSTALLED = {"kubectl", "python3.8"}
"""Programs of other packages than Debian's; tests that need them are skipped where they are not."""


def test_every_program_that_a_test_looks_for_is_set_up_or_said_to_be_left_out() -> None:
    setup = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    installed = {"cc", "gcc", "setpriv", "scontrol"}  # packages that come with others
    for words in re.findall(r'^    need \S+ \S+ "[^"]*" (.*)$', setup, re.MULTILINE):
        installed |= set(words.split())
    wanted: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        for name in re.findall(r'which\("([^"]+)"', path.read_text(encoding="utf-8")):
            wanted[name] = path.name
    assert len(wanted) > 8
    assert set(wanted) - installed - NOT_INSTALLED == set(), wanted


def test_set_up_replaces_a_link_to_an_environment_and_empties_nothing_behind_it(tmp_path: Path) -> None:
    """A second checkout may share the first one's environment by a link; making an environment clears what is there."""
    setup = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    made = re.search(r"^make_venv\(\) \{\n.*?^\}\n", setup, re.MULTILINE | re.DOTALL)
    assert made is not None
    kept = tmp_path / "shared" / "pyvenv.cfg"
    kept.parent.mkdir()
    kept.write_text("home = /usr\n")
    (tmp_path / ".venv").symlink_to(kept.parent)
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\nif [ "$1" = -c ]; then echo "$0"; else mkdir -p .venv; rm -f .venv/*; fi\n')
    fake.chmod(0o755)
    script = (
        f"set -eu\nroot=$PWD\npython={fake}\nsay() {{ :; }}\nfail() {{ exit 1; }}\n{made[0]}\nmake_venv\n"
    )
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    assert kept.exists()
    assert (tmp_path / ".venv").is_dir() and not (tmp_path / ".venv").is_symlink()
