"""Orders on a fleet by a real library: the session opened, the comparison, the survey, the session ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.probe.fleet.stopping import run_stoppable, until_stopped
from netprobe.probe.records.events import OnEvent, Step, ignore
from netprobe.probe.records.result import HostOutcome
from netprobe.verify.libraries.library import Library, LibrarySession, check_algorithm, check_trial
from netprobe.verify.libraries.process_group import LibraryError
from netprobe.verify.run import Arrange, VerifyOptions, VerifyOutcome, run_comparison
from netprobe.verify.runner import BlockingRunner, StoppedRunError

ALGORITHMS = {"chunked-ring": "ring", "nccl-tree": "tree", "binomial-tree": "tree"}
"""netprobe's names of programs that the libraries call otherwise."""
NCCL_ONLY, MPI_ONLY = ("nccl-tree",), ("binomial-tree",)


def algorithm_of(library: Library, program: str) -> str:
    """The library's name of a program of ``docs/planning.md``. Raises InputError where it has none."""
    name = ALGORITHMS.get(program, program)
    if program in NCCL_ONLY and library.name != "nccl-tests":
        raise InputError(f"{program} is NCCL's: --with {library.name} cannot run it")
    if program in MPI_ONLY and library.name != "mpi":
        raise InputError(f"{program} is Open MPI's: --with {library.name} cannot run it")
    check_algorithm(library, name)
    return name


def run_library(
    hosts: Sequence[Host],
    library: Library,
    algorithm: str,
    arrange: Arrange,
    verify: VerifyOptions,
    *,
    start_timeout_s: float,
    on_event: OnEvent = ignore,
) -> VerifyOutcome:
    """Measure. Nothing is left running, however it ends; SIGINT, SIGTERM and SIGHUP end it early and cleanly.

    ``algorithm`` is the library's own name. Raises InputError for an invalid request, PlatformError, and
    LibraryError when the library does not start: it runs on all the hosts or on none.
    """
    if verify.channels != 1:
        raise InputError("--channels is for netprobe's own agents: the library chooses its connections")
    check_trial(range(len(hosts)), len(hosts), verify.size_bytes)
    return run_stoppable(
        lambda stop: _run(hosts, library, algorithm, arrange, verify, start_timeout_s, on_event, stop)
    )


async def _run(
    hosts: Sequence[Host],
    library: Library,
    algorithm: str,
    arrange: Arrange,
    verify: VerifyOptions,
    start_timeout_s: float,
    on_event: OnEvent,
    stop: asyncio.Event,
) -> VerifyOutcome:
    outcome = VerifyOutcome(hosts=[HostOutcome(host=host) for host in hosts])
    ended = threading.Event()
    opened = library.open(hosts, algorithm=algorithm, start_timeout_s=start_timeout_s, ended=ended)
    entering: asyncio.Future[LibrarySession] | None = None

    async def work() -> None:
        nonlocal entering
        on_event(Step(text=f"starting {library.name}", detail=f"{len(hosts)} hosts"))
        entering = asyncio.ensure_future(asyncio.to_thread(opened.__enter__))
        session = await asyncio.shield(entering)
        began = time.monotonic()
        outcome.contenders = contenders = await asyncio.to_thread(
            arrange, range(len(hosts)), verify.size_bytes
        )
        outcome.library = session.version
        orders = [one.order for one in contenders.all]

        def run(number: int, limit_s: float) -> float:
            return session.time_all_reduce(orders[number], verify.size_bytes, limit_s)

        try:
            await run_comparison(BlockingRunner(run), contenders, verify, outcome.record, on_event)
        except StoppedRunError as error:
            outcome.stopped = str(error)
        finally:
            outcome.duration_s = time.monotonic() - began

    try:
        outcome.interrupted = await until_stopped(work(), stop)
    finally:
        # A trial, or a start, in another thread ends with an error now.
        ended.set()
        await _leave(opened, entering)
    if outcome.interrupted and outcome.contenders is None:
        raise NothingMeasuredError("interrupted before the library was up: nothing was verified")
    return outcome


async def _leave(opened: object, entering: asyncio.Future[LibrarySession] | None) -> None:
    """Close what was opened; an error while it opened was reported."""
    if entering is None:
        return
    try:
        await asyncio.shield(entering)
    except (LibraryError, InputError):
        return
    await asyncio.to_thread(opened.__exit__, None, None, None)  # type: ignore[attr-defined]
