"""Orders in turn, repetition after repetition. What runs them is behind the protocol ``Runner``; no I/O here.

``compare`` runs a baseline A and the proposed order B as A B B A A B B A ..., until the interval of their ratio is
narrow or the time is up; ``survey`` runs many orders, each pass in another sequence.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from netprobe.core.errors import InputError
from netprobe.verify.ratio import Ratio, check_precision, ratio_of
from netprobe.verify.runner import Runner, StoppedRunError

PROPOSED = 0
"""Number of the proposed order; those above are others."""
MOST_BLOCKS = 64
LEAST_PAIRS = 4
"""Two or three may agree by chance."""
LEAST_SURVEYED = 2
"""Fewer orders have no rank correlation."""
OVERTIME = 1.5
"""Of the time: so long it may take where runs got slower than those by which the buffer was chosen."""
PATIENCE = 10.0
"""How many times what it should take a batch may take."""
LEAST_LIMIT_S = 60.0

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """How long, and how well. Raises InputError."""

    time_s: float = 60.0
    precision: float = 0.05
    """The half-width of the interval, as a share of the ratio, that is good enough."""
    wanted_pairs: int = 0
    """So many are made also after the time, up to ``OVERTIME`` times as long."""

    def __post_init__(self) -> None:
        if not 1.0 <= self.time_s <= 86400.0:
            raise InputError(f"a time of {self.time_s:g} s: 1 s to 24 hours are allowed")
        check_precision(self.precision)


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """One: which order, and how long it took. A warm-up counts for nothing."""

    order: int
    seconds: float
    warm_up: bool = False


@dataclass(kw_only=True)
class Record:
    """What was measured; it grows while things run, so that an early end leaves what there is."""

    comparison: list[Repetition] = field(default_factory=list)
    survey: list[Repetition] = field(default_factory=list)

    def pairs(self) -> list[tuple[float, float]]:
        """Neighbours in time of the comparison, as (baseline, proposed)."""
        counted = [one for one in self.comparison if not one.warm_up]
        found = []
        for first, second in zip(counted[::2], counted[1::2]):
            baseline, proposed = (second, first) if first.order == PROPOSED else (first, second)
            found.append((baseline.seconds, proposed.seconds))
        return found

    def ratio(self) -> Ratio | None:
        """The speed-up so far."""
        return ratio_of(self.pairs())


OnProgress = Callable[[int, float, Ratio | None], None]
"""Called with the repetitions done, elapsed seconds, and the ratio so far."""


async def compare(
    runner: Runner,
    baselines: Sequence[int],
    options: ComparisonOptions,
    record: Record,
    *,
    on_progress: OnProgress = lambda *_: None,
    clock: Clock = time.monotonic,
) -> None:
    """The proposed order against ``baselines``, which take turns. Raises StoppedRunError when it cannot continue.

    Two runs to warm up and a block of four (two pairs) are always made; a further block is started where
    it ends in time if it takes as long as the last one. Below ``wanted_pairs`` the time is ``OVERTIME`` as long.
    """
    began = clock()
    warm = [baselines[0], PROPOSED]
    await _run(runner, warm, max(LEAST_LIMIT_S, 2 * options.time_s), record.comparison, warm_up=True)
    # By the clock: what a library does around the part that it times (connecting, starting a job) counts too.
    block_s = max(2 * (clock() - began), 1e-6)
    turn = 0
    while True:
        on_progress(len(record.comparison), clock() - began, record.ratio())
        left = options.time_s - (clock() - began)
        blocks = int(min(runner.batch_s, left) / block_s)
        sequence: list[int] = []
        for _ in range(min(max(blocks, 1), MOST_BLOCKS)):
            first, second = (baselines[(turn + i) % len(baselines)] for i in range(2))
            sequence += [first, PROPOSED, PROPOSED, second]
            turn += 2 if len(baselines) > 1 else 0
        limit = max(LEAST_LIMIT_S, PATIENCE * block_s * len(sequence) / 4)
        before = clock()
        await _run(runner, sequence, limit, record.comparison)
        block_s = max((clock() - before) * 4 / len(sequence), 1e-6)
        ratio = record.ratio()
        enough = ratio is not None and ratio.pairs >= LEAST_PAIRS and ratio.width <= options.precision
        missing = ratio is None or ratio.pairs < options.wanted_pairs
        if enough or clock() - began + block_s > options.time_s * (OVERTIME if missing else 1.0):
            on_progress(len(record.comparison), clock() - began, ratio)
            return


async def survey(
    runner: Runner,
    orders: Sequence[int],
    options: ComparisonOptions,
    record: Record,
    *,
    seed: int = 0,
    on_progress: OnProgress = lambda *_: None,
    clock: Clock = time.monotonic,
) -> None:
    """Each of ``orders``, pass after pass while a whole one fits in the time.

    No run is started that would pass the time if it took as long as the longest so far, but for the first two.
    """
    began = clock()
    rng = random.Random(seed)
    longest = 0.0
    while True:
        before = clock()
        turn = list(orders)
        rng.shuffle(turn)
        for order in turn:
            started = clock()
            if len(record.survey) >= LEAST_SURVEYED and started - began + longest > options.time_s:
                return
            limit = max(LEAST_LIMIT_S, 2 * options.time_s, PATIENCE * longest)
            await _run(runner, [order], limit, record.survey)
            longest = max(longest, clock() - started)
            on_progress(len(record.survey), clock() - began, None)
        if clock() - began + (clock() - before) > options.time_s:
            return


async def _run(
    runner: Runner, sequence: Sequence[int], limit_s: float, into: list[Repetition], *, warm_up: bool = False
) -> None:
    batch = await runner.repeat(sequence, limit_s)
    into += [
        Repetition(order=order, seconds=seconds, warm_up=warm_up)
        for order, seconds in zip(sequence, batch.seconds)
    ]
    if batch.reason is not None:
        raise StoppedRunError(batch.reason)
