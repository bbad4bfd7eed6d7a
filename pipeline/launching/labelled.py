"""Output of a job's ranks as srun and mpirun label it, given back line by line with the name of the host.

Both name ranks, each in its own way, as tried with Slurm 22.05 and Open MPI 4.1.4 and 5.0.11:

- ``srun --label``: ``N: `` before each line, padded on the left where ranks have several digits.
- ``mpirun --tag-output``, 4.1: ``[1,N]<stdout>:`` before each piece that it read, also in the middle of a line, where
  the next piece may be another rank's. So the pieces of a rank are held until its line is whole.
- ``mpirun --tag-output``, 5.0: ``[1,N]<stdout>: `` before each line, and lines are whole.

What bears no label, srun and mpirun say themselves.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

LONGEST_LINE = 1 << 20
VERSION_S = 10.0
_READ = 1 << 16

OnLine = Callable[["str | None", int, bytes], None]
"""Called with the host's name (None: said by srun or mpirun), the stream (1 or 2) and a line without its end."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """``flag`` asks for them, ``pattern`` finds one (its group is the rank), ``inside`` lines too or only at the
    beginning."""

    flag: str
    pattern: re.Pattern[bytes]
    inside: bool = False


_TAG = rb"\[\d+,(\d+)\]<std(?:out|err|diag)>:"
SRUN = Labels(flag="--label", pattern=re.compile(rb" *(\d+): "))
OPENMPI_4 = Labels(flag="--tag-output", pattern=re.compile(_TAG), inside=True)
OPENMPI_5 = Labels(flag="--tag-output", pattern=re.compile(_TAG + rb" ?"))


def labels_of(launcher: str, command: str) -> Labels:
    """Those of a launcher of ``RANK_LAUNCHERS``, whose command that is: mpirun is asked for its version."""
    if launcher == "slurm":
        return SRUN
    try:
        done = subprocess.run(
            [command, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return OPENMPI_4
    said = re.search(rb"Open MPI\) (\d+)\.", done.stdout)
    return OPENMPI_5 if said is not None and int(said[1]) >= 5 else OPENMPI_4


class LabelledOutput:
    """One stream of srun's or mpirun's output. No I/O here: bytes are fed, and lines come out."""

    def __init__(self, labels: Labels, hosts: Sequence[str], stream: int, on_line: OnLine) -> None:
        """``hosts`` are the names by rank."""
        self._labels = labels
        self._hosts = hosts
        self._stream = stream
        self._on_line = on_line
        self._held = b""
        self._lines: dict[int | None, bytes] = {}
        self._going_on: int | None = None
        """Whose the beginning of a line is that was too long to be held until its end."""

    def feed(self, data: bytes) -> None:
        """Bytes as they come, cut anywhere."""
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            last = self._pieces(line)
            self._going_on = None
            self._emit(last, self._lines.pop(last, b""))
        if len(self._held) > LONGEST_LINE:
            self._going_on = self._pieces(self._held)
            self._held = b""

    def end(self) -> None:
        """No more comes: what is held is given back."""
        if self._held:
            self._pieces(self._held)
        self._held = b""
        for rank in list(self._lines):
            self._emit(rank, self._lines.pop(rank))

    def _pieces(self, line: bytes) -> int | None:
        """Add each rank's part of a line to what is held of it, and return whose the last part is."""
        owner, at = self._going_on, 0
        for found in self._found(line):
            rank = int(found[1])
            if rank >= len(self._hosts):
                continue
            self._add(owner, line[at : found.start()])
            owner, at = rank, found.end()
        self._add(owner, line[at:])
        return owner

    def _found(self, line: bytes) -> list[re.Match[bytes]]:
        if self._labels.inside:
            return list(self._labels.pattern.finditer(line))
        if self._going_on is not None:
            return []
        found = self._labels.pattern.match(line)
        return [] if found is None else [found]

    def _add(self, rank: int | None, piece: bytes) -> None:
        if not piece:
            return
        held = self._lines.get(rank, b"") + piece
        while len(held) > LONGEST_LINE:
            self._emit(rank, held[:LONGEST_LINE])
            held = held[LONGEST_LINE:]
        self._lines[rank] = held

    def _emit(self, rank: int | None, line: bytes) -> None:
        host = None if rank is None else self._hosts[rank]
        # As over ssh, a carriage return ends a line too: bars of progress are drawn with it.
        for one in line.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
            self._on_line(host, self._stream, one)


def pump(pipe: IO[bytes], output: LabelledOutput) -> None:
    """Read a pipe to its end, also where nobody takes what is said any more: a full pipe would stop the job."""
    heard = True
    while data := os.read(pipe.fileno(), _READ):
        if heard:
            try:
                output.feed(data)
            except OSError:
                heard = False
    if heard:
        output.end()
