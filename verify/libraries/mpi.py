"""Open MPI's MPI_Allreduce under mpirun, in one order after another within one job.

mpirun starts a rank a host from the hostfile it is given; each other order is a communicator whose ranks are
permuted (MPI_Comm_split). So connections and processes are the same for all orders, and only the order differs. The
hostfile and the flags that keep its order come from the caller, who exports them (formats/).
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netprobe.core.errors import PlatformError
from netprobe.core.hosts import Host
from netprobe.core.system.scratch import scratch_folder
from netprobe.probe.launchers.mpi import mca_words
from netprobe.verify.libraries.library import (
    check_algorithm,
    check_ranks,
    check_trial,
    seconds_in,
    text_in,
    warm_bytes,
)
from netprobe.verify.libraries.process_group import ProcessGroup
from netprobe.verify.libraries.source import in_arguments

_TUNED = {"coll_tuned_priority": "100", "coll_tuned_use_dynamic_rules": "1"}
"""Before the components that choose for themselves (han of Open MPI 5, hcoll)."""
ALGORITHMS: dict[str, dict[str, str]] = {
    "ring": {"coll_tuned_allreduce_algorithm": "4"},
    "segmented-ring": {
        "coll_tuned_allreduce_algorithm": "5",
        "coll_tuned_allreduce_algorithm_segmentsize": str(1 << 18),
    },
    "halving-doubling": {"coll_tuned_allreduce_algorithm": "6"},
    "recursive-doubling": {"coll_tuned_allreduce_algorithm": "3"},
    "tree": {
        "coll_tuned_allreduce_algorithm": "2",
        "coll_tuned_reduce_algorithm": "5",
        "coll_tuned_reduce_algorithm_segmentsize": str(1 << 18),
        "coll_tuned_bcast_algorithm": "6",
        "coll_tuned_bcast_algorithm_segmentsize": str(1 << 18),
    },
}
"""Open MPI 4.1 and 5: rabenseifner is halving-doubling, and tree a binomial reduce and a binomial broadcast in
segments of 256 KiB. ``default``, besides these, leaves the choice to Open MPI."""

HostfileWriter = Callable[[Sequence[Host], Path], list[str]]
"""Writes the hostfile of hosts in rank order, and returns the beginning of mpirun's argv that obeys it."""


class MpiLibrary:
    """Implements ``library.Library``. ``prefix`` goes before mpirun (for example into a lab's controller)."""

    name = "mpi"
    algorithms = (*ALGORITHMS, "default")

    def __init__(
        self,
        write_hostfile: HostfileWriter,
        *,
        mca: Sequence[str] = (),
        prefix: Sequence[str] = (),
        python: str = "python3",
    ) -> None:
        self._write_hostfile = write_hostfile
        self._mca = mca_words(mca)
        self._prefix = list(prefix)
        self._python = python

    @contextmanager
    def open(
        self,
        hosts: Sequence[Host],
        *,
        algorithm: str = "ring",
        start_timeout_s: float = 60.0,
        ended: threading.Event | None = None,
    ) -> Iterator[MpiSession]:
        """Start a job whose hostfile lists ``hosts`` as they come."""
        check_algorithm(self, algorithm)
        if shutil.which("mpirun") is None:
            raise PlatformError("no program 'mpirun' on this machine: --with mpi needs Open MPI")
        with scratch_folder() as folder, ProcessGroup(ended) as group:
            argv = [*self._prefix, *self._write_hostfile(hosts, folder / "hostfile"), *self._mca]
            for key, value in ({} if algorithm == "default" else _TUNED | ALGORITHMS[algorithm]).items():
                argv += ["--mca", key, value]
            group.start("mpirun", [*argv, *in_arguments("mpi_allreduce", self._python)])
            begun = group.receive(0, "ranks", time.monotonic() + start_timeout_s)
            check_ranks(begun["ranks"], [host.launcher_name for host in hosts])
            yield MpiSession(group, len(hosts), text_in(begun, "library"))


class MpiSession:
    """A running job. Implements ``library.LibrarySession``."""

    def __init__(self, group: ProcessGroup, hosts: int, version: str) -> None:
        self._group = group
        self._hosts = hosts
        self.version = version

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float = 120.0) -> float:
        """Seconds of one all-reduce."""
        check_trial(order, self._hosts, size_bytes)
        words = (size_bytes, warm_bytes(size_bytes), *order)
        self._group.send(0, (" ".join(map(str, words)) + "\n").encode("ascii"))
        return seconds_in(self._group.receive(0, "seconds", time.monotonic() + timeout_s), "Open MPI")
