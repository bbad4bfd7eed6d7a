"""Write a manual page for netprobe and for each of its commands, from the commands' own help.

    python scripts/make_man.py [FOLDER]      # build/man by default; then: man -M build netprobe-scan, or man -l FILE

A page has the sections of man-pages(7): NAME, SYNOPSIS, DESCRIPTION, the options under the headings that --help
has, EXIT STATUS, EXAMPLES, SEE ALSO. Whatever a command says of itself is escaped: a line that begins with a dot is
still text.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netprobe._version import __version__
from netprobe.cli.app import COMMANDS, EXIT_CODES, app, made
from netprobe.cli.help import EXAMPLES, records_of

ROOT = Path(__file__).resolve().parent.parent


def commands(command: Any, words: tuple[str, ...] = ("netprobe",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words by which each command is called, and the command, groups before what is in them."""
    yield words, command
    for name in getattr(command, "commands", ()):
        yield from commands(command.commands[name], (*words, name))


def roff(text: str) -> str:
    """Text as roff takes it for text."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + escaped if escaped.startswith(".") else escaped


def paragraphs(text: str) -> list[str]:
    """Blocks of a help text, each on one line."""
    blocks = inspect.cleandoc(text).replace("\b", "").split("\n\n")
    return [" ".join(block.split()) for block in blocks if block.strip()]


def page(words: tuple[str, ...], command: Any) -> str:
    """The page of one command."""
    name = "-".join(words)
    context = command.make_context(" ".join(words), ["--help"], resilient_parsing=True)
    about = paragraphs(command.help or "")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{roff(name.upper())}" 1 "" "netprobe {__version__}" "netprobe"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(summary(words, command).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {roff(' '.join(words))}",
        roff(usage),
        ".SH DESCRIPTION",
    ]
    for block in about:
        lines += [".PP", roff(block)]
    for heading, records in sections(words, command, context):
        lines.append(f'.SH "{heading.upper()}"')
        for term, text in records:
            lines += [".TP", f".B {roff(term)}", roff(" ".join(text.split())) or r"\&"]
    lines += [".SH EXIT STATUS", roff(EXIT_CODES.removeprefix("Exit codes: "))]
    if not hasattr(command, "commands"):
        lines += [".SH EXAMPLES", ".nf", *(roff(f"netprobe {one}") for one in EXAMPLES[words[-1]]), ".fi"]
    lines += [".SH SEE ALSO", roff(", ".join(f"{one}(1)" for one in related(words, command)))]
    return "\n".join(lines) + "\n"


def sections(words: tuple[str, ...], command: Any, context: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    """Headings as --help has them, with their terms and texts."""
    below = [(name, summary((*words, name), one)) for name, one in getattr(command, "commands", {}).items()]
    return records_of(command, context) + [("Commands", below)] * bool(below)


def summary(words: tuple[str, ...], command: Any) -> str:
    """The line that a list of commands has for this one."""
    known = COMMANDS.get(words[1]) if len(words) == 2 else None
    return known.help if known is not None else paragraphs(command.help or "")[0]


def related(words: tuple[str, ...], command: Any) -> list[str]:
    """The pages above and below this one."""
    below = [f"{'-'.join(words)}-{name}" for name in getattr(command, "commands", ())]
    return (["-".join(words[:-1])] if len(words) > 1 else []) + below


def write(folder: Path) -> list[Path]:
    """Write all pages into ``folder``/man1; what was written."""
    (folder / "man1").mkdir(parents=True, exist_ok=True)
    written = []
    for words, command in commands(made(app)):
        path = folder / "man1" / f"{'-'.join(words)}.1"
        path.write_text(page(words, command), encoding="utf-8")
        written.append(path)
    return written


def main() -> int:
    """Write them, and say where they are."""
    parser = argparse.ArgumentParser(description="Write netprobe's manual pages.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "man")
    given = parser.parse_args()
    written = write(given.folder)
    print(f"{len(written)} pages in {given.folder}/man1; to read one: man -l {written[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
