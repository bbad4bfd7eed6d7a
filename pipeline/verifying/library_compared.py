"""A library's own all-reduce in the original order, to compare with what the agents ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from netprobe.core.errors import NothingMeasuredError, PlatformError
from netprobe.core.hosts import Host
from netprobe.core.text import one_line
from netprobe.probe.records.events import OnEvent
from netprobe.verify.comparison import Repetition
from netprobe.verify.libraries.library import Library
from netprobe.verify.libraries.run_library import run_library
from netprobe.verify.run import Contender, Contenders, VerifyOptions, VerifyOutcome

DEFAULT = "default"
"""A library's algorithm of that name is its own choice."""


def default_algorithm(library: Library) -> str:
    """What the library does unless it is told otherwise."""
    return DEFAULT if DEFAULT in library.algorithms else library.algorithms[0]


def add_library(
    outcome: VerifyOutcome,
    hosts: Sequence[Host],
    library: Library,
    verify: VerifyOptions,
    *,
    start_timeout_s: float,
    on_event: OnEvent,
) -> None:
    """Run the library's default all-reduce on ``hosts`` in their order, for the comparison's time, into ``outcome``.

    It runs after the agents, not in turn with them: while both are up a library that waits takes the processors that
    the other needs. Where it does not start, or ends early, ``outcome.stopped`` says why.
    """
    contenders = outcome.contenders
    if contenders is None or outcome.interrupted or outcome.stopped or outcome.record.ratio() is None:
        return
    algorithm = default_algorithm(library)
    one = Contender(
        name=f"{library.name} {algorithm}, given",
        order=tuple(range(len(hosts))),
        kind="library",
        algorithm=f"{library.name} {algorithm}",
    )
    alone = Contenders(proposed=one, baselines=(), surveyed=(one,))
    try:
        found = run_library(
            hosts,
            library,
            algorithm,
            lambda *_: alone,
            replace(verify, channels=1, size_bytes=outcome.size_bytes or verify.size_bytes),
            start_timeout_s=start_timeout_s,
            on_event=on_event,
        )
    except (NothingMeasuredError, PlatformError) as error:
        outcome.stopped = f"--with {library.name}: {one_line(str(error))}"
        return
    number = len(contenders.all)
    outcome.contenders = replace(contenders, surveyed=(*contenders.surveyed, one))
    outcome.record.survey += [Repetition(order=number, seconds=run.seconds) for run in found.record.survey]
    outcome.library, outcome.interrupted = found.library, found.interrupted
    outcome.stopped = None if found.stopped is None else f"--with {library.name}: {found.stopped}"
    outcome.duration_s += found.duration_s
