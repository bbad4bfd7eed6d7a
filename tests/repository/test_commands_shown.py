"""Each netprobe command that a page, the README or an example shows is one: its words, its options, their number."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from netprobe.cli.app import app
from tests.repository.project import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_file())
FENCED = re.compile(r"^ *```(?:bash|sh|console)?\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    .*\n|^\s*\n)+", re.MULTILINE)
COMMAND = re.compile(r"(?:^|[|(]|&&|\$|--) *(netprobe [a-z-].*)", re.MULTILINE)


def shell_text(path: Path) -> str:
    """What of a file a shell would run."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
        text = "\n".join(line[1:] for cell in cells for line in cell.splitlines() if line[:1] == "!")
    if path.suffix == ".md":
        fenced = [match[1] for match in FENCED.finditer(text)]
        indented = [match[0] for match in INDENTED.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL))]
        text = "\n".join(re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in fenced + indented)
    return text.replace("\\\n", " ")


def commands_in(path: Path) -> Iterator[list[str]]:
    """The words of each netprobe command, up to a redirection, a pipe, a comment or a program after ``--``."""
    for line in COMMAND.findall(shell_text(path)):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            words = list(lexer)
        except ValueError:  # a quote that ends on another line
            continue
        end = next((at for at, word in enumerate(words) if word.strip("|&;<>()") == "" and word), len(words))
        words = words[1:end]
        yield words[: words.index("--")] if "--" in words else words


def fault(words: list[str]) -> str | None:
    """What of a command does not exist; None where all does."""
    command: Any = typer.main.get_command(app)
    shown = " ".join(["netprobe", *words])
    left = list(words)
    while left and not left[0].startswith("-") and left[0] in getattr(command, "commands", {}):
        command = command.commands[left.pop(0)]
    if command.name in (None, "main", "netprobe") and left[:1] not in ([], ["-V"], ["--version"], ["--help"]):
        return None if left[0].isupper() else f"{shown}: no such command"
    known = {word for param in command.params for word in (*param.opts, *param.secondary_opts)}
    given = [word.partition("=")[0] for word in left if re.match(r"--?[a-z]", word)]
    lost = [word for word in given if word not in {*known, "--help"}]
    return f"{shown}: no option {lost}" if lost else None


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_command_shown_is_one(path: Path) -> None:
    assert [why for words in commands_in(path) if (why := fault(words))] == []


def test_commands_are_found_and_faults_are_seen() -> None:
    shown = [words for path in PAGES for words in commands_in(path)]
    assert len(shown) > 100
    assert ["scan", "--hosts", "hosts", "--out", "first"] in shown
    assert (
        fault(["scan", "hosts", "--fast"])
        and fault(["scna", "hosts"])
        and fault(["plan", "order", "--hots", "x"])
    )
    assert fault(["plan", "order", "first", "--hosts", "x"]) is None
