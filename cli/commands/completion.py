"""``netprobe completion SHELL``: what makes a shell complete commands, options and words."""

from __future__ import annotations

from typing import Annotated

import typer


def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="SHELL", help="bash, zsh or fish; the scripts themselves ask for 'words'."),
    ],
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Print the lines that let a shell complete netprobe's commands and options.

    bash: eval "$(netprobe completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit; fish: into a
    file, as below.
    """
    from netprobe.cli.completing import SCRIPTS, candidates
    from netprobe.core.errors import InputError
    from netprobe.core.text import meant

    if shell == "words":
        for word, text in candidates(words or [""]):
            typer.echo(f"{word}\t{text}")
    elif shell in SCRIPTS:
        typer.echo(SCRIPTS[shell], nl=False)
    else:
        raise InputError(
            f"no completion for {shell!r}: known are {', '.join(SCRIPTS)}{meant(shell, SCRIPTS)}"
        )
