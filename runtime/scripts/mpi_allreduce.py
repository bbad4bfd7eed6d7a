"""Open MPI's own MPI_Allreduce, timed in one rank order after another. Every rank of an mpirun job runs this.

It calls libmpi by ctypes, so a host needs Python and what mpirun itself needs, no compiler and no package. Rank 0
reads a line for each trial from standard input::

    SIZE_BYTES WARM_BYTES R0 R1 ...

Ri is the rank of MPI_COMM_WORLD that becomes rank i. MPI_Comm_split with the place as key makes that communicator
over the connections there are. WARM_BYTES of floats are summed, then SIZE_BYTES, and every sum is checked. Lines of
ours on standard output begin with ``netprobe``: first each rank's host, then one a trial, its seconds from a
barrier to the end of the slowest rank. It ends with its input.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

NAMES = ("libmpi.so.40", "libmpi.so", "libmpi.40.dylib", "libmpi.dylib")
MAX_LINE_BYTES = 1 << 20
PERIOD = 8
NAME_BYTES = 64


def say(message: dict[str, Any]) -> None:
    """One line to the controller, past any buffers."""
    sys.stdout.write("netprobe " + json.dumps(message) + "\n")
    sys.stdout.flush()


def load() -> ctypes.CDLL:
    """Open MPI's library, with its symbols for all of its plug-ins. Raises OSError."""
    mpirun = shutil.which("mpirun")
    folders = [os.environ.get("OPAL_PREFIX"), mpirun and Path(mpirun).resolve().parent.parent]
    paths = [str(Path(folder, "lib", name)) for folder in folders if folder for name in NAMES]
    tried = []
    for path in (*NAMES, *paths):
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            tried.append(str(error))
            continue
        if hasattr(library, "ompi_mpi_comm_world"):
            return library
        tried.append(path + " is not Open MPI's")
    raise OSError("libmpi of Open MPI cannot be loaded: " + tried[0])


def parse_trial(line: str, size: int) -> tuple[int, int, list[int]]:
    """(bytes, warm-up bytes, order) of a line. Raises ValueError."""
    numbers = [int(word) for word in line.split()]
    size_bytes, warm_bytes, order = numbers[0], numbers[1], numbers[2:]
    if sorted(order) != list(range(size)):
        raise ValueError("no order of the ranks")
    if any(n < 4 or n % 4 or n > 1 << 32 for n in (size_bytes, warm_bytes)):
        raise ValueError("no size in floats")
    return size_bytes, warm_bytes, order


def pattern(scale: int) -> bytes:
    """The bytes of PERIOD small whole numbers, which floats add exactly in any order."""
    return array.array("f", [scale * (i + 1) for i in range(PERIOD)]).tobytes()


def scale_of(rank: int) -> int:
    """What a rank's numbers are multiplied by: its neighbours' are other ones."""
    return rank % 16 + 1


class Job:
    """This process's part of the job."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.libc = library, ctypes.CDLL(None)
        self.world = self.handle("ompi_mpi_comm_world")
        # MPI_ERRORS_ARE_FATAL is the default on a communicator: a call that returns has worked.
        library.MPI_Wtime.restype = ctypes.c_double
        rank, size = ctypes.c_int(), ctypes.c_int()
        library.MPI_Init(None, None)
        library.MPI_Comm_rank(self.world, ctypes.byref(rank))
        library.MPI_Comm_size(self.world, ctypes.byref(size))
        self.rank, self.size = rank.value, size.value
        self.have_bytes = 0
        self.source = self.target = self.expected = ctypes.create_string_buffer(0)

    def handle(self, name: str) -> ctypes.c_void_p:
        """A predefined handle: the address of a variable of the library."""
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, name)))

    def say_ranks(self) -> None:
        """Rank 0: the host of each rank, as the host calls itself."""
        own = ctypes.create_string_buffer(socket.gethostname().encode("utf-8", "replace"), 256)[:NAME_BYTES]
        all_names = ctypes.create_string_buffer(NAME_BYTES * self.size)
        char = self.handle("ompi_mpi_char")
        self.library.MPI_Gather(own, NAME_BYTES, char, all_names, NAME_BYTES, char, 0, self.world)
        if self.rank == 0:
            starts = range(0, NAME_BYTES * self.size, NAME_BYTES)
            names = [all_names.raw[at : at + NAME_BYTES].split(b"\0")[0] for at in starts]
            text = ctypes.create_string_buffer(1024)
            self.library.MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
            version = text.value.decode("ascii", "replace").split(",")[0]
            say({"library": version, "ranks": [name.decode("utf-8", "replace") for name in names]})

    def next_trial(self) -> tuple[int, int, list[int]] | None:
        """The next line of rank 0, on every rank; None at the end."""
        numbers = (ctypes.c_longlong * (self.size + 2))()
        if self.rank == 0:
            line = sys.stdin.readline(MAX_LINE_BYTES)
            if line:
                size_bytes, warm_bytes, order = parse_trial(line, self.size)
                numbers[:] = [size_bytes, warm_bytes, *order]
        self.library.MPI_Bcast(numbers, len(numbers), self.handle("ompi_mpi_long_long_int"), 0, self.world)
        return (numbers[0], numbers[1], list(numbers[2:])) if numbers[0] else None

    def room(self, size_bytes: int) -> None:
        """Buffers of at least ``size_bytes``: this rank's numbers, and room for the sums."""
        if size_bytes > self.have_bytes:
            self.source = self.target = self.expected = ctypes.create_string_buffer(0)
            repeats = -(-size_bytes // (4 * PERIOD))
            self.expected = ctypes.create_string_buffer(
                pattern(sum(map(scale_of, range(self.size)))) * repeats
            )
            self.source = ctypes.create_string_buffer(pattern(scale_of(self.rank)) * repeats)
            self.target = ctypes.create_string_buffer(4 * PERIOD * repeats)
            self.have_bytes = size_bytes

    def reduce(self, comm: ctypes.c_void_p, size_bytes: int) -> tuple[float, bool]:
        """Seconds of this rank, and whether all its sums are right."""
        call, count = self.library.MPI_Allreduce, ctypes.c_int(size_bytes // 4)
        floats, add = self.handle("ompi_mpi_float"), self.handle("ompi_mpi_op_sum")
        ctypes.memset(self.target, 0, size_bytes)
        self.library.MPI_Barrier(comm)
        began = self.library.MPI_Wtime()
        call(self.source, self.target, count, floats, add, comm)
        took: float = self.library.MPI_Wtime() - began
        return took, self.libc.memcmp(self.target, self.expected, ctypes.c_size_t(size_bytes)) == 0

    def run(self, size_bytes: int, warm_bytes: int, order: list[int]) -> float:
        """One trial: on rank 0 the slowest rank's seconds, infinite where a sum is wrong."""
        self.room(max(size_bytes, warm_bytes))
        comm = ctypes.c_void_p()
        self.library.MPI_Comm_split(self.world, 0, order.index(self.rank), ctypes.byref(comm))
        self.reduce(comm, warm_bytes)
        took, right = self.reduce(comm, size_bytes)
        self.library.MPI_Comm_free(ctypes.byref(comm))
        # A wrong sum as a time that cannot be: one reduction tells both.
        mine, slowest = ctypes.c_double(took if right else float("inf")), ctypes.c_double()
        double, most = self.handle("ompi_mpi_double"), self.handle("ompi_mpi_op_max")
        self.library.MPI_Reduce(ctypes.byref(mine), ctypes.byref(slowest), 1, double, most, 0, self.world)
        return slowest.value


def main() -> int:
    """Serve trials until the input ends."""
    try:
        library = load()
    except OSError as error:
        sys.stderr.write(f"mpi_allreduce: {error}\n")
        return 2
    job = Job(library)
    job.say_ranks()
    try:
        while True:
            trial = job.next_trial()
            if trial is None:
                break
            slowest = job.run(*trial)
            if job.rank == 0:
                right = slowest < float("inf")
                say({"seconds": slowest if right else None, "correct": right})
    except (ValueError, IndexError, MemoryError) as error:
        sys.stderr.write("mpi_allreduce: " + (str(error) or type(error).__name__) + "\n")
        sys.stderr.flush()
        job.library.MPI_Abort(job.world, 2)
    job.library.MPI_Finalize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
