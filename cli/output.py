"""Where a command's words go: results to stdout, progress and notes to stderr, JSON alone on stdout."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace netprobe's own files of that name.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random choice.")]


@dataclass(frozen=True, kw_only=True)
class Output:
    """``json`` and ``quiet`` as the user asked."""

    json: bool = False
    quiet: bool = False

    def console(self) -> Console:
        """Results for people. rich leaves colour codes out when stdout is no terminal."""
        from rich.console import Console

        return Console(highlight=False, soft_wrap=False, markup=False)

    def say(self, *parts: RenderableType) -> None:
        """Print for people, unless they asked for JSON or for silence."""
        if self.json or self.quiet:
            return
        console = self.console()
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str))

    def note(self, text: str) -> None:
        """One line on stderr."""
        if not (self.json or self.quiet):
            with contextlib.suppress(OSError, ValueError):  # nobody reads it: no reason to lose a scan
                print(text, file=sys.stderr)

    def result(self, data: dict[str, Any]) -> None:
        """The JSON object, where it was asked for."""
        if self.json:
            print(json.dumps(data, allow_nan=False))

    @property
    def live(self) -> bool:
        """Whether a progress display makes sense."""
        return not self.json and not self.quiet and sys.stderr.isatty()
