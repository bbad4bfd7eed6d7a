"""``netprobe help COMMAND``: what ``netprobe COMMAND --help`` prints, for those who guess it this way round."""

from __future__ import annotations

from typing import Annotated

import typer


def help_(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="A command, or a command and its sub-command."),
    ] = None,
) -> int:
    """Print the help of a command: netprobe help plan order."""
    from netprobe.cli.running import run

    return run([*(words or ()), "--help"])
