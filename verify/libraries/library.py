"""A collective library in place of netprobe's own agents, on the same hosts in the same order.

    process_group.py  the processes, and the lines they exchange with us
    mpi.py            Open MPI's MPI_Allreduce
    gloo.py           Gloo's all_reduce, through torch.distributed
    nccl.py           all_reduce_perf of nccl-tests

A session is opened once on the hosts; it then times one order after another, in the sequence that its caller
likes, so that orders can be compared interleaved.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.core.text import one_line
from netprobe.verify.libraries.process_group import LibraryError

MAX_SIZE_BYTES = 1 << 32
FLOAT_BYTES = 4
WARM_SHARE = 16
LEAST_WARM_BYTES = 1 << 20
MAX_TRIAL_S = 1e6


class LibrarySession(Protocol):
    """A library that runs on the hosts."""

    version: str
    """What it calls itself."""

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float) -> float:
        """Seconds of one all-reduce of ``size_bytes`` of floats, from a barrier to the slowest rank's end.

        ``order[rank]`` is the index of the host. A smaller all-reduce goes before it, so that connections are
        open; every sum is checked. Raises InputError for no permutation or size, LibraryError.
        """
        ...


class Library(Protocol):
    """Opens sessions."""

    @property
    def name(self) -> str:
        """As the user calls it."""
        ...

    @property
    def algorithms(self) -> Sequence[str]:
        """The algorithms it can be set to use, the first by default."""
        ...

    def open(
        self,
        hosts: Sequence[Host],
        *,
        algorithm: str,
        start_timeout_s: float,
        ended: threading.Event | None = None,
    ) -> AbstractContextManager[LibrarySession]:
        """Start it on ``hosts``, one rank each; once ``ended`` is set, what waits for it gets a LibraryError.

        Raises InputError, PlatformError or LibraryError."""
        ...


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One trial: which of the orders, and how long it took."""

    order: int
    duration_s: float


def interleaved(orders: int) -> Iterator[int]:
    """A B C C B A A B C ...: any drift affects all orders equally. Never ends."""
    while True:
        yield from range(orders)
        yield from reversed(range(orders))


def time_orders(
    session: LibrarySession,
    orders: Sequence[Sequence[int]],
    *,
    size_bytes: int,
    trials: int,
    timeout_s: float = 120.0,
) -> Iterator[Timing]:
    """``trials`` timings of each order, interleaved, as they come."""
    for at in islice(interleaved(len(orders)), trials * len(orders)):
        yield Timing(order=at, duration_s=session.time_all_reduce(orders[at], size_bytes, timeout_s))


def check_algorithm(library: Library, algorithm: str) -> None:
    """Raise InputError for one that the library does not have."""
    if algorithm not in library.algorithms:
        raise InputError(
            f"no algorithm {algorithm[:60]!r} with {library.name}: it has {', '.join(library.algorithms)}"
        )


def check_trial(order: Sequence[int], hosts: int, size_bytes: int) -> None:
    """Raise InputError for an order that is not a permutation of the hosts, or a size that cannot be floats."""
    if sorted(order) != list(range(hosts)):
        raise InputError(f"an order must list each of the {hosts} hosts once")
    if not 0 < size_bytes <= MAX_SIZE_BYTES or size_bytes % FLOAT_BYTES:
        raise InputError(
            f"a size of {size_bytes} bytes: floats of {FLOAT_BYTES} bytes are summed, up to {MAX_SIZE_BYTES} bytes: "
            "give another --size"
        )


def warm_bytes(size_bytes: int) -> int:
    """Size of the all-reduce that goes before: a share of the timed one, but not a small one."""
    return min(size_bytes, max(size_bytes // WARM_SHARE // FLOAT_BYTES * FLOAT_BYTES, LEAST_WARM_BYTES))


def seconds_in(message: dict[str, Any], who: str) -> float:
    """The time that a trial's message tells. Raises LibraryError, also when a sum was wrong."""
    if message.get("correct") is not True:
        raise LibraryError(f"{who} summed wrongly: its all-reduce gave other numbers than it had to")
    found = message.get("seconds")
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 < found < MAX_TRIAL_S:
        return float(found)
    raise LibraryError(f"{who} answers with no time: {one_line(str(found)[:200], 60)!r}")


def text_in(message: dict[str, Any], key: str, limit: int = 80) -> str:
    """A text of a message, made safe to print."""
    found = message.get(key)
    return one_line(found, limit) if isinstance(found, str) else "unknown"


def check_ranks(reported: object, expected: Sequence[str]) -> None:
    """Whether the ranks run where they were to. ``reported``: what each rank's host calls itself.

    A launcher name may be an address or an alias, which no host calls itself: nothing can be concluded then, and
    nothing is said. Raises LibraryError for the first rank that runs on the host of another one.
    """
    if not isinstance(reported, list) or not all(isinstance(name, str) for name in reported):
        raise LibraryError("the ranks do not say where they run")
    if len(reported) != len(expected):
        raise LibraryError(f"{len(reported)} ranks run instead of {len(expected)}")
    found = [_label(name) for name in reported]
    wanted = [_label(name) for name in expected]
    for rank, (is_on, was_for) in enumerate(zip(found, wanted)):
        if is_on != was_for and is_on in wanted:
            raise LibraryError(
                f"rank {rank} runs on {one_line(reported[rank], 80)}, and was for {expected[rank]}: the launcher keeps "
                "another order"
            )


def _label(name: str) -> str:
    return name.partition(".")[0].lower() if not name.replace(".", "").isdigit() else name
