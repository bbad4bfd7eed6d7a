"""Running a command: the one place where errors become a line and an exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from netprobe.core.errors import EXIT_BUG, EXIT_INPUT, EXIT_INTERRUPTED, NetprobeError
from netprobe.core.system.interrupts import ENDING, interrupt
from netprobe.core.text import printable


def run_and_exit(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with its documented code."""
    args = list(sys.argv[1:] if argv is None else argv)
    _mend_streams()
    for number in ENDING:
        # Ended from outside is interrupted: labs and agents are taken down first, however often the signal comes.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)
    code = run(args)
    try:
        sys.stdout.flush()
    except OSError:
        # Its disk is full: nothing can be reported.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for number in ENDING:  # Python's last steps take their handlers away: the exit code is known, and stays
        if signal.getsignal(number) is interrupt:
            signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _mend_streams() -> None:
    """Closed streams go nowhere, and so does what nobody reads any more (``| head -1``); a character the terminal
    cannot show is not a reason to fail."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 (for the life of the process)
        elif isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _unbreakable(stream))


def _unbreakable(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The same stream on a descriptor whose reader may go at any time.

    typer and rich both end the process with 1 when a pipe breaks: whether that meets a write of theirs or the last
    flush is a race, and it would take the place of the command's own exit code.
    """
    raw = _Descriptor(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Descriptor(io.FileIO):
    def write(self, data: Any, /) -> Any:
        """As of a file; what a broken pipe does not take counts as written."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def run(args: Sequence[str]) -> int:
    """Run the command and return its exit code. Never raises for bad input."""
    try:
        from netprobe.cli.app import app

        result = app(args=list(args), prog_name="netprobe", standalone_mode=False)
    except KeyboardInterrupt:
        return _fail(args, "interrupted", EXIT_INTERRUPTED)
    except NetprobeError as error:
        return _fail(args, str(error), error.exit_code)
    except Exception as error:
        missing = _missing(error)
        if missing is not None:
            return _fail(args, missing, EXIT_INPUT)
        from netprobe.cli.app import usage_error_text

        usage = usage_error_text(error)
        if usage is not None:
            return _fail(args, usage, EXIT_INPUT) if usage else _fail(args, "interrupted", EXIT_INTERRUPTED)
        if _was_interrupt(error):
            return _fail(args, "interrupted", EXIT_INTERRUPTED)
        if os.environ.get("NETPROBE_DEBUG"):
            raise
        text = f"internal error, please report it: {type(error).__name__}: {error}"
        return _fail(args, f"{text} (NETPROBE_DEBUG=1 shows where)", EXIT_BUG)
    if result == EXIT_INTERRUPTED and "exec" not in args[:2]:
        # Typer makes this of a KeyboardInterrupt, without a word.
        return _fail(args, "interrupted", EXIT_INTERRUPTED)
    return result if isinstance(result, int) else 0


def _missing(error: Exception) -> str | None:
    """What is to be installed where an import found nothing that is not netprobe's own; None for another error."""
    if (
        not isinstance(error, ModuleNotFoundError)
        or (error.name or "netprobe").partition(".")[0] == "netprobe"
    ):
        return None
    from netprobe.core.system.install import missing_text

    return missing_text((error.name or "").partition(".")[0])


def _was_interrupt(error: BaseException) -> bool:
    """Whether an interrupt caused an error: what it cuts short may raise an error of its own for it."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return any(isinstance(one, KeyboardInterrupt) for one in chain)


def _fail(args: Sequence[str], message: str, code: int) -> int:
    line = printable(" ".join(message.split()))
    with contextlib.suppress(OSError, ValueError):
        print(f"netprobe: {line}", file=sys.stderr)
    # After `lab exec` the words are another program's.
    if "--json" in args and "exec" not in args[:2]:
        with contextlib.suppress(OSError, ValueError):
            print(json.dumps({"error": line, "exit_code": code}))
    return code
