"""scripts/make_man.py: a manual page a command, which man can set without a complaint."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from netprobe.cli.app import COMMANDS
from tests.repository.project import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_man", ROOT / "scripts" / "make_man.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {path.stem: path for path in script.write(tmp_path_factory.mktemp("man"))}


def test_each_command_and_each_of_its_own_has_a_page(pages: dict[str, Path]) -> None:
    assert {"netprobe", *(f"netprobe-{name}" for name in COMMANDS)} <= set(pages)
    assert {"netprobe-plan-order", "netprobe-lab-exec", "netprobe-export-hostfile"} <= set(pages)


def test_a_page_has_the_usual_sections_and_what_help_says(pages: dict[str, Path]) -> None:
    text = pages["netprobe-scan"].read_text(encoding="utf-8")
    headings = [heading.strip('"') for heading in re.findall(r"^\.SH (.*)$", text, re.MULTILINE)]
    assert headings[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert headings[-3:] == ["EXIT STATUS", "EXAMPLES", "SEE ALSO"]
    assert {"HOSTS", "PROBING", "OUTPUT", "ADVANCED"} <= set(headings)
    assert r"\-\-dry\-run" in text and "netprobe scan hosts.txt" in text


def test_each_page_that_another_names_is_there(pages: dict[str, Path]) -> None:
    for page in pages.values():
        last = page.read_text(encoding="utf-8").rpartition("SEE ALSO")[2].replace("\\-", "-")
        named = re.findall(r"([\w-]+)\(1\)", last)
        assert named and set(named) <= set(pages)


@pytest.mark.parametrize("text", [".SH not a heading", "'quoted' first", r"a\nb", "...", "`x` -- y"])
def test_text_is_never_taken_for_a_request(text: str, script: ModuleType) -> None:
    escaped = script.roff(text)
    assert not escaped.startswith((".", "'"))
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tascii", "-P-cbou", "-ww"],
            input=f".TH X 1\n.PP\n{escaped}\n",
            capture_output=True,
            text=True,
            check=True,
        )
        assert text in done.stdout and done.stderr == ""


def test_man_sets_every_page_without_a_warning(pages: dict[str, Path]) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-cbou", "-wmac", "-wdelim", "-wescape", "-wsyntax", *pages.values()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "" and done.stdout.count("EXIT STATUS") == len(pages)
