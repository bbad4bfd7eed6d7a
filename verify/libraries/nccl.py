"""nccl-tests: ``all_reduce_perf`` under mpirun, one job a trial, and the reader of its table.

NCCL has no permuted communicator in nccl-tests, so each trial is a job of its own with the order's exported hostfile.
Between hosts NCCL keeps the rank order in its rings and trees; inside a host it orders the GPUs by itself.
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.core.system.scratch import scratch_folder
from netprobe.probe.launchers.mpi import mca_words
from netprobe.verify.libraries.library import check_algorithm, check_ranks, check_trial
from netprobe.verify.libraries.mpi import HostfileWriter
from netprobe.verify.libraries.process_group import LibraryError, ProcessGroup

ALGORITHMS = {"ring": ("-x", "NCCL_ALGO=Ring"), "tree": ("-x", "NCCL_ALGO=Tree"), "default": ()}
PROGRAM = "all_reduce_perf"
OPERATIONS = ("sum", "prod", "max", "min", "avg", "mulsum")
MAX_LINES = 1 << 15
MAX_RANKS = 1 << 20
ITERATIONS = 20
WARM_UPS = 5

_RANK = re.compile(r"#\s*Rank\s+(\d{1,7})\b.*?\bon\s+(\S+)\s+device\b")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)\b")
_WHOLE = re.compile(r"[0-9]{1,15}")
_TYPE = re.compile(r"[a-z][a-z0-9_]{1,15}")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,2})?")
_MOST_WRONG = 1e15


@dataclass(frozen=True, kw_only=True)
class NcclRow:
    """One size: the out-of-place time of one all-reduce, and the sums that were wrong (None: not checked)."""

    size_bytes: int
    duration_s: float
    wrong: int | None


@dataclass(frozen=True, kw_only=True)
class NcclReport:
    """What all_reduce_perf printed. ``hosts``: what the host of each rank calls itself."""

    hosts: tuple[str, ...]
    rows: tuple[NcclRow, ...]


def read_nccl_report(lines: Iterable[str]) -> NcclReport:
    """Read the output of all_reduce_perf (2.x), among other output of mpirun.

    A row is ``size count type redop root`` and twice ``time algbw busbw #wrong`` (us, GB/s); older
    releases have no root, or no redop either.
    Raises LibraryError for what is not a table, wrong sums, or ranks that are not all there.
    """
    hosts: dict[int, str] = {}
    rows: list[NcclRow] = []
    for line in lines:
        rank, bounds = _RANK.search(line), _BOUNDS.search(line)
        if rank is not None:
            if hosts.setdefault(int(rank[1]), rank[2]) != rank[2] or len(hosts) > MAX_RANKS:
                raise LibraryError(
                    f"{PROGRAM} names two hosts for rank {int(rank[1])}: was it built without MPI=1?"
                )
        elif bounds is not None and (bounds[2] != "OK" or int(bounds[1]) != 0):
            raise LibraryError(f"{PROGRAM} summed wrongly: {int(bounds[1])} values out of bounds")
        elif not line.lstrip().startswith("#"):
            row = _row(line.split())
            if row is not None:
                rows.append(row)
    if not rows:
        raise LibraryError(f"{PROGRAM} printed no table")
    if sorted(hosts) != list(range(len(hosts))):
        raise LibraryError(f"{PROGRAM} does not name the host of every rank")
    wrong = sum(row.wrong or 0 for row in rows)
    if wrong:
        raise LibraryError(f"{PROGRAM} summed wrongly: {wrong} wrong values")
    return NcclReport(hosts=tuple(hosts[rank] for rank in range(len(hosts))), rows=tuple(rows))


def _row(words: Sequence[str]) -> NcclRow | None:
    """A row of the table; None for a line that is not a row."""
    if len(words) not in (11, 12, 13) or not all(map(_WHOLE.fullmatch, words[:2])):
        return None
    if not _TYPE.fullmatch(words[2]) or (len(words) > 11 and words[3] not in OPERATIONS):
        return None
    time_us, algbw, busbw, wrong = words[-8:-4]
    if not all(map(_NUMBER.fullmatch, (time_us, algbw, busbw))) or float(time_us) <= 0:
        return None
    if wrong != "N/A" and not _NUMBER.fullmatch(wrong):
        return None
    # Releases up to 2.12 tell the largest error there, a small fraction.
    count = None if wrong == "N/A" else int(min(float(wrong), _MOST_WRONG))
    return NcclRow(size_bytes=int(words[0]), duration_s=float(time_us) * 1e-6, wrong=count)


class NcclTests:
    """Implements ``library.Library``. ``program`` is all_reduce_perf's path on the hosts."""

    name = "nccl-tests"
    algorithms = tuple(ALGORITHMS)

    def __init__(
        self,
        write_hostfile: HostfileWriter,
        *,
        mca: Sequence[str] = (),
        prefix: Sequence[str] = (),
        program: str = PROGRAM,
    ) -> None:
        if not program.isprintable() or not program or program.startswith("-"):
            raise InputError(f"the program {program[:60]!r}: give the path of {PROGRAM} on the hosts")
        self._write_hostfile = write_hostfile
        self._words = [*mca_words(mca)]
        self._prefix = list(prefix)
        self._program = program

    def argv(self, hosts: Sequence[Host], hostfile: Path, algorithm: str, size_bytes: int) -> list[str]:
        """mpirun's argv for ``hosts`` in rank order. Writes the hostfile."""
        argv = [*self._prefix, *self._write_hostfile(hosts, hostfile), *self._words, *ALGORITHMS[algorithm]]
        sizes = ["-b", str(size_bytes), "-e", str(size_bytes)]
        return [
            *argv,
            self._program,
            *sizes,
            "-n",
            str(ITERATIONS),
            "-w",
            str(WARM_UPS),
            "-g",
            "1",
            "-c",
            "1",
        ]

    @contextmanager
    def open(
        self,
        hosts: Sequence[Host],
        *,
        algorithm: str = "ring",
        start_timeout_s: float = 60.0,
        ended: threading.Event | None = None,
    ) -> Iterator[NcclSession]:
        """Nothing is started before the first trial."""
        check_algorithm(self, algorithm)
        if shutil.which("mpirun") is None:
            raise PlatformError("no program 'mpirun' on this machine: --with nccl-tests needs Open MPI")
        with scratch_folder() as folder:
            yield NcclSession(self, tuple(hosts), algorithm, folder / "hostfile", start_timeout_s, ended)


class NcclSession:
    """One job a trial. Implements ``library.LibrarySession``."""

    version = PROGRAM

    def __init__(
        self,
        tests: NcclTests,
        hosts: tuple[Host, ...],
        algorithm: str,
        hostfile: Path,
        start_timeout_s: float,
        ended: threading.Event | None,
    ) -> None:
        self._tests = tests
        self._hosts = hosts
        self._algorithm = algorithm
        self._hostfile = hostfile
        self._start_timeout_s = start_timeout_s
        self._ended = ended

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float = 120.0) -> float:
        """Seconds of one all-reduce, the mean of a job's."""
        check_trial(order, len(self._hosts), size_bytes)
        ranked = [self._hosts[i] for i in order]
        argv = self._tests.argv(ranked, self._hostfile, self._algorithm, size_bytes)
        with ProcessGroup(self._ended, noise_lines=MAX_LINES) as group:
            group.start("mpirun", argv)
            report = read_nccl_report(group.collect(0, time.monotonic() + self._start_timeout_s + timeout_s))
        expected = [host.launcher_name for host in ranked for _ in range(host.slots or 1)]
        check_ranks(list(report.hosts), expected)
        found = [row.duration_s for row in report.rows if row.size_bytes == size_bytes]
        if not found:
            # It rounds a size down to a multiple of its ranks.
            found = [row.duration_s for row in report.rows]
        return found[0]
