"""The ranks asked where they run, before a job starts or in place of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from netprobe.core.errors import NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.formats.rank_output.rank_lines import MAX_LOG_BYTES, RankLog, read_rank_lines
from netprobe.formats.rank_output.rank_program import RANK_LAUNCHERS
from netprobe.pipeline.launching.parts import Part, parts_of
from netprobe.pipeline.launching.running import JobOptions, run_job
from netprobe.probe.launchers.exec_launcher import ChildLauncher

ASK = tuple(RANK_LAUNCHERS["torchrun"].program)
"""Says where it runs, by the variables that torchrun sets, and netprobe launch for other programs."""


def ask_ranks(
    ranked: Sequence[Host],
    launcher: ChildLauncher,
    options: JobOptions,
    *,
    slots: int | None,
    time_s: float,
    before: Sequence[str] = (),
    on_error: Callable[[Part, bytes], None] = lambda _part, _line: None,
) -> RankLog:
    """What the ranks say, started as a job's are; ``before`` are words before the program, such as torchrun's.

    Raises NothingMeasuredError where none says a thing, or a host cannot be reached.
    """
    said = bytearray()

    def keep(part: Part, stream: int, line: bytes) -> None:
        if stream == 1 and len(said) < MAX_LOG_BYTES:
            said.extend(line + b"\n")
        elif stream == 2:
            on_error(part, line)

    parts = parts_of(ranked, [*before, *ASK], env={}, slots=slots)
    end = run_job(parts, launcher, replace(options, time_s=time_s), on_output=keep)
    log = read_rank_lines(said.decode("utf-8", "replace"))
    if not log.lines:
        where = f" on {end.failed} (exit code {end.code})" if end.failed else ""
        raise NothingMeasuredError(f"no rank said where it runs: the program that asks failed{where}")
    return log
