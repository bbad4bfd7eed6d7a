"""The command line. A command parses, calls one function of pipeline/, renders, and sets the exit code.

Nothing heavy is imported before a command runs, so that ``netprobe --help`` is quick.
"""

from netprobe.cli.entry import main

__all__ = ["main"]
