"""``main``, the command itself, and ``run`` for tests. Nothing is imported here before an interrupt is quiet."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with its documented code.

    Until the command's own handlers are there Ctrl-C ends the process as it ends any other, rather than with a
    traceback out of an import.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from netprobe.cli.running import run_and_exit

    run_and_exit(argv)


def run(args: Sequence[str]) -> int:
    """Run the command and return its exit code. Never raises for bad input."""
    from netprobe.cli.running import run as run_

    return run_(args)
