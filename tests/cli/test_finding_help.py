"""Help by other ways than ``--help``: ``help``, ``docs``, what a shell completes, ``-V``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netprobe._version import __version__
from netprobe.cli.app import COMMANDS
from netprobe.cli.completing import SCRIPTS, candidates
from netprobe.cli.entry import run

DOCS = Path(__file__).resolve().parents[2] / "docs"


def said(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [(), ("scan",), ("plan",), ("plan", "order"), ("lab", "exec")], ids=" ".join
)
def test_help_says_what_the_option_does(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert said("help", *words, capsys=capsys) == said(*words, "--help", capsys=capsys)


def test_help_of_a_mistyped_command_says_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "scna"]) == 2
    assert "Did you mean 'scan'" in capsys.readouterr().err


def test_the_short_option_says_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("-V", capsys=capsys) == said("--version", capsys=capsys) == f"netprobe {__version__}\n"


def test_docs_lists_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said("docs", capsys=capsys).splitlines()
    assert [line.split()[0] for line in lines] == sorted(page.stem for page in DOCS.glob("*.md"))
    assert all(len(line.split()) > 1 for line in lines)


@pytest.mark.parametrize("name", ["launchers", "launchers.md", "docs/launchers.md"])
def test_docs_prints_a_page_by_each_name_it_goes_by(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said("docs", name, capsys=capsys) == (DOCS / "launchers.md").read_text(encoding="utf-8")


def test_docs_prints_a_section(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("docs", "usage#install", capsys=capsys)
    assert text.startswith("## Install\n") and "netprobe-fleet" in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Install"]


@pytest.mark.parametrize(
    ("given", "meant"), [("lancher", "launchers"), ("usage#instal", "install"), ("../README", ""), ("", "")]
)
def test_docs_of_what_is_not_there_says_what_is(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["docs", given]) == 2
    error = capsys.readouterr().err
    assert "known are" in error and meant in error and error.count("\n") == 1


def test_docs_of_an_install_without_pages_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("netprobe.pipeline.pages.files", lambda _package: tmp_path)
    assert run(["docs"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("", set(COMMANDS)),
        ("s", {name for name in COMMANDS if name[0] == "s"}),
        ("plan ", {"order", "auto", "2lha", "ds-sync"}),
        ("plan order --obj", {"--objective"}),
        ("scan --dry", {"--dry-run"}),
        ("help plan o", {"order"}),
        ("help export", {"export"}),
        ("docs glos", {"glossary"}),
        ("schema tr", {"truth"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("--ver", {"--version"}),
    ],
)
def test_what_may_follow_is_offered(typed: str, some: set[str]) -> None:
    assert {word for word, _ in candidates(typed.split(" "))} == some


@pytest.mark.parametrize(
    "typed", ["map fir", "scan --hosts ho", "plan first/m", "lab exec demo -- pi", "nonsense x", "show a "]
)
def test_files_are_left_to_the_shell(typed: str) -> None:
    assert candidates(typed.split(" ")) == []


def test_an_unknown_shell_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "fsh"]) == 2
    assert "did you mean fish?" in capsys.readouterr().err


ASK = {
    "bash": 'COMP_WORDS=(netprobe plan ord); COMP_CWORD=2; _netprobe; echo "${COMPREPLY[@]}"',
    "zsh": "_describe() { print -l -- ${(P)3%%:*} }; words=(netprobe plan ord); CURRENT=3; _netprobe",
    "fish": "complete -C 'netprobe plan ord'",
}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes_with_its_script(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "netprobe").write_text(f'#!/bin/sh\nexec {sys.executable} -m netprobe "$@"\n')
    (tmp_path / "netprobe").chmod(0o755)
    start = "compdef() { : }\n" if shell == "zsh" else ""
    done = subprocess.run(
        [program, "-c", f"{start}{SCRIPTS[shell]}\n{ASK[shell]}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout.split()[:1] == ["order"], done.stderr
