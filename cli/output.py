"""Where a command's words go: results to stdout, progress and notes to stderr, JSON alone on stdout."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.core.errors import InputError
from netprobe.core.text import printable
from netprobe.report.plain import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more: what the result was compared with.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace netprobe's own files of that name, never others.")
]
PutAsideOption = Annotated[
    bool,
    typer.Option("--force", help="Set netprobe's own files in --out aside as *.old, and write new ones."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random choice.")]


@dataclass(frozen=True, kw_only=True)
class Output:
    """``json``, ``quiet`` and ``verbose`` are the user's options."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def console(self) -> Console:
        """Results for people. rich omits colour codes when stdout is not a terminal.

        No word is markup or an emoji: names and reasons come from elsewhere.
        """
        from rich.console import Console

        return Console(highlight=False, soft_wrap=False, markup=False, emoji=False)

    def say(self, *parts: RenderableType) -> None:
        """Print for people, unless with --json or --quiet."""
        if self.json or self.quiet:
            return
        console = self.console()
        with _writing():
            for part in parts:
                console.print(plain(part), soft_wrap=isinstance(part, str))

    def note(self, text: str) -> None:
        """One line on stderr."""
        if not (self.json or self.quiet):
            with contextlib.suppress(OSError, ValueError):  # nobody reads it: no reason to lose a scan
                print(printable(text, keep="\n"), file=sys.stderr)

    def result(self, data: dict[str, Any]) -> None:
        """The JSON object, with --json."""
        if self.json:
            with _writing():
                print(json.dumps(data, allow_nan=False), flush=True)

    def document(self, path: Path, **more: Any) -> None:
        """With --json: the document as it was just written to ``path``, and beside its keys ``file`` and ``more``."""
        if self.json:
            from netprobe.core.documents.document import read_json

            self.result(read_json(path) | more | {"file": str(path)})

    @property
    def live(self) -> bool:
        """Whether a progress display makes sense."""
        return not self.json and not self.quiet and sys.stderr.isatty()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """A full disk under stdout is not a bug of ours (a closed pipe is not an error: see ``entry``)."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"standard output cannot be written: {error.strerror}; the output files are written before it"
        ) from None


def next_lines(*commands: str) -> list[str]:
    """What to type next: one command a line, the likeliest first, at most three."""
    return [("next: " if number == 0 else "      ") + one for number, one in enumerate(commands[:3])]
