"""A job through Slurm's srun or Open MPI's mpirun: one command that starts every rank in the plan's order."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.core.system.interrupts import ENDING, noted
from netprobe.formats import format_named, slots_of
from netprobe.pipeline.launching.labelled import SRUN, LabelledOutput, OnLine, labels_of, pump
from netprobe.pipeline.launching.parts import check_program, master_of, torchrun_in, torchrun_words

_AT = "@"
_LAST_WORDS_S = 5.0
"""Something that was left in the background may hold the pipes: no reason to wait for it longer."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """``launcher`` is its name in ``RANK_LAUNCHERS``; ``rank`` and ``local_rank`` are variables that it sets."""

    launcher: str
    format: str
    rank: str
    local_rank: str


ENGINES = {
    "slurm": Engine(
        launcher="slurm", format="slurm-hostfile", rank="SLURM_PROCID", local_rank="SLURM_LOCALID"
    ),
    "mpi": Engine(
        launcher="openmpi",
        format="openmpi",
        rank="OMPI_COMM_WORLD_RANK",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
    ),
}
"""By the names that ``--via`` has for them."""


@dataclass(frozen=True, kw_only=True)
class EngineJob:
    """What is started. ``passed`` are variables of the job, which stand in no argument."""

    engine: Engine
    ranked: tuple[Host, ...]
    program: tuple[str, ...]
    passed: Mapping[str, str]
    slots: int | None = None
    port: int = 29500
    setup: str | None = None
    folder: str | None = None
    extra: tuple[str, ...] = ()
    """Arguments for srun or mpirun themselves."""

    @property
    def slots_in_file(self) -> int | None:
        """torchrun is started once a host, and starts the ranks there itself."""
        return self.slots if torchrun_in(self.program) is None else 1

    @property
    def hosts_by_rank(self) -> list[str]:
        """The name of the host on which each process of srun or mpirun runs."""
        counts = slots_of(self.ranked, self.slots_in_file)
        return [host.name for host, count in zip(self.ranked, counts) for _ in range(count)]

    def text(self) -> str:
        """The file of hosts that the command reads. Raises InputError for names that it cannot hold."""
        write = format_named(self.engine.format).write
        assert write is not None  # both formats are written
        return write(self.ranked, slots=self.slots_in_file)

    def environment(self) -> dict[str, str]:
        """Variables that all ranks share, those that are passed on among them."""
        shared = {"MASTER_ADDR": master_of(self.ranked), "MASTER_PORT": str(self.port)}
        if torchrun_in(self.program) is None:
            counts = slots_of(self.ranked, self.slots)
            shared["WORLD_SIZE"] = str(sum(counts))
            if len(set(counts)) == 1:
                shared["LOCAL_WORLD_SIZE"] = str(counts[0])
        return {**shared, **self.passed}

    def argv(self, file: str) -> list[str]:
        """The command. Raises InputError for a program whose own options say another order."""
        check_program(self.program)
        command = format_named(self.engine.format).command
        assert command is not None
        names = sorted(self.environment())
        if self.engine.launcher == "slurm":
            own = ["--export=ALL", SRUN.flag, *([f"--chdir={self.folder}"] if self.folder else [])]
        else:
            flags = format_named(self.engine.format).naming_flags
            own = list(flags([host.launcher_name for host in self.ranked])) if flags is not None else []
            own += ["--tag-output", *(word for name in names for word in ("-x", name))]
            own += ["--wdir", self.folder] if self.folder else []
        ranks = sum(slots_of(self.ranked, self.slots_in_file))
        return command(file, ranks, [*own, *self.extra, "sh", "-c", self._script(), "sh", *self._words()])

    def _words(self) -> tuple[str, ...]:
        at = torchrun_in(self.program)
        return self.program if at is None else ()

    def _script(self) -> str:
        """What a rank runs: the program, with the variables that PyTorch reads, out of those of the engine."""
        before = f"{self.setup}\n" if self.setup else ""
        at = torchrun_in(self.program)
        if at is None:
            variables = f'RANK="${self.engine.rank}" LOCAL_RANK="${self.engine.local_rank}"'
            return f'{before}export {variables}; exec "$@"'
        counts = slots_of(self.ranked, self.slots)
        said = self.slots is not None or any(host.slots for host in self.ranked)
        if said and len(set(counts)) > 1:
            raise InputError(
                "hosts have different numbers of slots, and one command starts torchrun on all: give --slots, or --via "
                "ssh"
            )
        ours = {
            "--nnodes": str(len(self.ranked)),
            "--node-rank": _AT,
            "--nproc-per-node": str(counts[0]) if said else None,
            "--rdzv-backend": "static",
            "--master-addr": master_of(self.ranked),
            "--master-port": str(self.port),
        }
        words = torchrun_words(self.program, at, ours)
        place = f"--node-rank={_AT}"
        quoted = [
            f'--node-rank="${self.engine.rank}"' if word == place else shlex.quote(word) for word in words
        ]
        return f"{before}exec {' '.join(quoted)}"


@contextmanager
def hosts_file(job: EngineJob) -> Iterator[str]:
    """The file of hosts, for as long as the command runs."""
    with tempfile.NamedTemporaryFile("w", prefix="netprobe-hosts-", suffix=".txt") as file:
        file.write(job.text())
        file.flush()
        yield file.name


def run_engine(job: EngineJob, *, grace_s: float, on_line: OnLine) -> int:
    """Run the command to its end, pass its lines on with the names of their hosts, and pass signals on. Its exit code,
    128 + N where signal N ended it. Raises PlatformError where it cannot be started."""
    with hosts_file(job) as file:
        argv = job.argv(file)
        labels = labels_of(job.engine.launcher, argv[0])
        try:
            running = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **job.environment()},
                start_new_session=True,
            )
        except OSError as error:
            raise PlatformError(f"{argv[0]} cannot be started: {error.strerror}") from None
        pumps = [
            threading.Thread(
                target=pump,
                args=(pipe, LabelledOutput(labels, job.hosts_by_rank, stream, on_line)),
                daemon=True,
            )
            for stream, pipe in ((1, running.stdout), (2, running.stderr))
            if pipe is not None
        ]
        try:
            with _passing_on(running, grace_s):
                for one in pumps:
                    one.start()
                code = running.wait()
        finally:
            with suppress(ProcessLookupError):  # what it started here and left
                os.killpg(running.pid, signal.SIGKILL)
            for one in pumps:
                if one.ident is not None:
                    one.join(_LAST_WORDS_S)
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_on(running: subprocess.Popen[bytes], grace_s: float) -> Iterator[None]:
    """A signal ends the job by SIGTERM, to which srun and mpirun end their ranks; after the grace it is killed."""

    def end(number: int, _frame: object) -> None:
        noted()
        with suppress(ProcessLookupError):
            if number == signal.SIGALRM:
                os.killpg(running.pid, signal.SIGKILL)
                return
            running.send_signal(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, max(grace_s, 0.001))

    before = {number: signal.signal(number, end) for number in (*ENDING, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def place_of_file(job: EngineJob, folder: Path) -> tuple[str, bool]:
    """Where ``export`` writes the file, and whether it is there as the job needs it."""
    path = folder / format_named(job.engine.format).file
    try:
        same = path.read_text() == job.text()
    except (OSError, ValueError):
        same = False
    return str(path), same
