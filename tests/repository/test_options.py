"""Each option of each command is named by at least one test of that command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from netprobe.cli.app import app

TESTS = Path(__file__).parents[1]
EVERYWHERE = {"--help", "--version"}


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[list[str]]]]:
    """Each command with the words that each of its options may be given by, without those that turn it off."""
    below = getattr(command, "commands", None)
    if below is not None:
        for name in list(below):
            yield from options(below[name], (*path, name))
        return
    yield (
        path,
        [
            [word for word in param.opts if word not in EVERYWHERE]
            for param in command.params
            if param.param_type_name == "option"
        ],
    )


def named(path: tuple[str, ...], texts: list[str], words: list[str]) -> bool:
    """Whether a file of tests that runs the command names the option in any of its words."""
    option = re.compile("|".join(rf"""(?<![\w-]){re.escape(word)}(?=["' =,\]}}])""" for word in words))
    runs = [re.compile(rf"""(?<![\w-]){re.escape(word)}(?![\w-])""") for word in path]
    likely = (
        text for text in texts if any(word in text for word in words) and all(word in text for word in path)
    )
    return any(option.search(text) and all(run.search(text) for run in runs) for text in likely)


def test_each_option_of_each_command_is_named_by_a_test() -> None:
    texts = [file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py") if file != Path(__file__)]
    lost = [
        f"{' '.join(path)} {words[0]}"
        for path, found in options(typer.main.get_command(app))
        for words in found
        if words and not named(path, texts, words)
    ]
    assert lost == []
