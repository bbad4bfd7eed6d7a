"""What ranks printed: read from files, or kept from a launcher's command that is run here."""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.errors import InputError, NothingMeasuredError, PlatformError
from netprobe.core.system.scratch import scratch_file
from netprobe.core.text import listed, one_line
from netprobe.formats.rank_output.rank_lines import MAX_LOG_BYTES, RankLog, read_rank_lines
from netprobe.formats.rank_output.rank_program import RankLauncher, rank_argv
from netprobe.pipeline.ranks.checking_order import PlannedRanks
from netprobe.probe.launchers.diagnose import ROOT_BANNER, ROOT_REFUSED

STDIN = "-"
_MAX_ERRORS = 1 << 16
_NO_NAME = re.compile(
    r"Could not resolve hostname ([^\s:]+)|(?:host|node)(?:name)?:? +([^\s:,]{1,255}):? .{0,40}"
    r"(?:Name or service not known|Temporary failure in name resolution)"
    r"|Name or service not known|Temporary failure in name resolution|[Uu]nknown host",
)
_NO_WAY = re.compile(
    r"connect to (?:host|address) (\S{1,255}) port \d+: "
    r"((?:Connection|Operation) timed out|Connection refused|No route to host|Network is unreachable|Host is down)"
)
_LAST_WORDS_S = 1.0


def run_for_log(
    launcher: RankLauncher,
    file: str,
    planned: PlannedRanks,
    *,
    slots: int | None,
    extra: Sequence[str],
    timeout_s: float,
) -> RankLog:
    """Start the program as every rank of ``file`` and read what it says.

    Raises InputError where each host needs a command of its own, PlatformError where the launcher is not
    installed, and NothingMeasuredError where no rank said a thing.
    """
    argv = rank_argv(launcher, file, planned.hosts, slots=slots, extra=extra)
    if argv is None:
        raise InputError(
            f"{launcher.name} is started on each host by itself: run the commands, and give --read"
        )
    ran = run_ranks(argv, timeout_s=timeout_s)
    log = read_rank_lines(ran.text)
    if not log.lines:
        ended = f"was ended after {timeout_s:g} s" if ran.code is None else f"ended with exit code {ran.code}"
        why = f": {ROOT_REFUSED}" if ROOT_BANNER in ran.errors else _unreached(ran.errors)
        raise NothingMeasuredError(f"{launcher.name} {ended}, and no rank said where it runs{why}")
    return log


def _unreached(errors: str) -> str:
    """Which hosts could not be logged in to, as ssh says it; empty where it says nothing of the kind."""
    found = dict(_NO_WAY.findall(errors))
    if not found:
        return _unresolved(errors)
    hosts = listed([one_line(name, 60) for name in found])
    return f": {hosts} cannot be reached ({next(iter(found.values())).lower()}): mend that, or plan without"


def _unresolved(errors: str) -> str:
    """What a launcher says of a name that leads nowhere; empty where it says nothing of the kind."""
    match = _NO_NAME.search(errors)
    if match is None:
        return ""
    name = next((group for group in match.groups() if group), None)
    which = f"the name {one_line(name, 60)!r} does" if name else "names of hosts do"
    return (
        f": {which} not resolve where the launcher runs: give --ssh-config, names that ssh and the launcher know "
        "(launcher_name= in --hosts), or addresses"
    )


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What the command printed, cut after `MAX_LOG_BYTES`, how it ended (None: it was ended after its time), and the
    beginning of its errors."""

    text: str
    code: int | None
    errors: str = ""


def read_logs(sources: Sequence[str]) -> RankLog:
    """The ranks' lines of files, one after another; ``-`` is standard input.

    Raises InputError for what cannot be read, or is larger than `MAX_LOG_BYTES`, and NothingMeasuredError where no
    rank's line is in it.
    """
    if list(sources).count(STDIN) > 1:
        raise InputError("--read - is given twice: standard input is read once")
    logs = [read_rank_lines(_read(source), source=source) for source in sources]
    joined = RankLog(
        lines=tuple(line for log in logs for line in log.lines),
        torn=tuple(number for log in logs for number in log.torn),
    )
    if not joined.lines:
        what = "only torn lines" if joined.torn else "no line"
        raise NothingMeasuredError(
            f"{', '.join(sources)[:200]}: {what} of ranks in it: run the command that netprobe check-order prints, "
            "and give what it prints on standard output"
        )
    return joined


def _read(source: str) -> str:
    try:
        if source == STDIN:
            data = sys.stdin.buffer.read(MAX_LOG_BYTES + 1)
        else:
            with Path(source).open("rb") as stream:
                data = stream.read(MAX_LOG_BYTES + 1)
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{source[:60]!r}: no such file") from None
    if len(data) > MAX_LOG_BYTES:
        raise InputError(
            f"{source}: larger than {MAX_LOG_BYTES} bytes: give its lines with netprobe-rank (grep)"
        )
    # What PowerShell's > writes begins so.
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8", errors="replace")


def run_ranks(argv: Sequence[str], *, timeout_s: float) -> Ran:
    """Run ``argv`` without a shell, its errors going where ours go. Raises PlatformError where it cannot start."""
    errors = bytearray()
    with scratch_file() as kept:
        try:
            running = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=kept, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise PlatformError(f"{argv[0]} cannot be started: {error.strerror}") from None
        passing = threading.Thread(target=_pass_on, args=(running, errors), daemon=True)
        passing.start()
        code: int | None = None
        try:
            code = running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if code is None:
                _end(running)
        passing.join(_LAST_WORDS_S)  # what it started may live on, and hold the pipe
        kept.seek(0)
        return Ran(
            text=kept.read(MAX_LOG_BYTES).decode(errors="replace"),
            code=code,
            errors=errors.decode(errors="replace"),
        )


def _pass_on(running: subprocess.Popen[bytes], errors: bytearray) -> None:
    """Write a program's errors to ours as they come, and keep the first of them."""
    assert running.stderr is not None
    with running.stderr as stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            errors += chunk[: _MAX_ERRORS - len(errors)]
            with suppress(OSError):  # nobody reads ours: the launcher keeps running
                os.write(2, chunk)


def _end(running: subprocess.Popen[bytes]) -> None:
    """A launcher that is terminated ends its ranks; one that does not end is killed with its processes."""
    for number, wait_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(running.pid, number)
        with suppress(subprocess.TimeoutExpired):
            running.wait(wait_s)
            return
