"""A job as commands to read or to type: what each host's part is, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from netprobe.pipeline.launching.parts import Part
from netprobe.probe.launchers.exec_launcher import ChildLauncher

HIDDEN = "..."
"""Stands for a value that was passed by its name alone, a token perhaps."""


def command_lines(parts: Sequence[Part], launcher: ChildLauncher, hidden: Collection[str] = ()) -> list[str]:
    """One line for each process of a job, rank 0 first, every word quoted as a shell needs it.

    They show what is run; netprobe itself starts a supervisor there, and gives it the same words by its input.
    """
    lines = []
    for part in parts:
        for own in part.each:
            env = {**part.env, **own}
            words = [f"{name}={HIDDEN if name in hidden else value}" for name, value in env.items()]
            command = ["env", *words, *part.argv] if words else list(part.argv)
            lines.append(shlex.join(launcher.argv(part.host, command)))
    return lines
