"""Help: a page a command, as it was agreed; UPDATE_HELP=1 writes the pages anew, to be looked at and committed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from netprobe.cli.app import COMMANDS
from netprobe.cli.entry import run
from netprobe.cli.help import ADVANCED, EXAMPLES, HEADINGS

PAGES = Path(__file__).parent / "help"
GROUPS = {
    "plan": ("auto", "order", "2lha", "ds-sync"),
    "export": ("hostfile", "topology", "schedule"),
    "import": ("matrix",),
    "lab": ("up", "list", "exec", "set", "down"),
    "manifest": ("kubernetes",),
}
ALL = [
    (),
    *((name,) for name in COMMANDS),
    *((group, name) for group, names in GROUPS.items() for name in names),
]


def page(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What help prints on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert run([*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", ALL, ids=lambda words: " ".join(words) or "netprobe")
def test_each_page_is_as_it_was_agreed(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = page(words, capsys, monkeypatch)
    path = PAGES / f"{'-'.join(words) or 'netprobe'}.txt"
    if os.environ.get("UPDATE_HELP"):
        PAGES.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "look at the page, then UPDATE_HELP=1 writes it anew"
    assert "<str>" not in found and "<int" not in found and "<float" not in found and "<path" not in found
    if words:
        assert (
            f"Examples:\n  netprobe {EXAMPLES[words[-1]][0]}\n  netprobe {EXAMPLES[words[-1]][1]}\n" in found
        )
        headings = [line[:-1] for line in found.splitlines() if line.endswith(":") and line[:1].isupper()]
        shown = [one for one in headings if one in (*HEADINGS, ADVANCED)]
        assert len(shown) <= 7
        assert ADVANCED not in shown or shown[-1] == ADVANCED


@pytest.mark.parametrize("example", [one for two in EXAMPLES.values() for one in two])
def test_an_example_has_no_option_that_is_not_there(
    example: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(example.partition("|")[0].partition(">")[0].partition("<")[0])
    command = tuple(words[: 2 if words[0] in GROUPS and words[1] in GROUPS[words[0]] else 1])
    if command == ("plan",):
        command = ("plan", "auto")
    if command == ("export",):
        command = ("export", "hostfile")
    known = page(command, capsys, monkeypatch)
    options = words[: words.index("--")] if "--" in words else words
    assert all(f"{word} " in known or f"{word}," in known for word in options if word.startswith("--"))
