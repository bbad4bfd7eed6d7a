"""Single edits of every builder's schedules: how many the proof rejects, and whether those it accepts are right."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from _tables import heading, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from netprobe.plan.schedule.program import compile_schedule
from tests.plan.schedule.mutants import (
    RANDOM_TIMINGS,
    TooManyStatesError,
    every_builder,
    every_timing,
    is_accepted,
    program_mutants,
    sampled,
    schedule_mutants,
    survives,
)
from tests.plan.schedule.timing import contributions

SMALL, LARGE = (2, 3, 4), (5, 6, 7, 8, 9)


def row(ranks: int, most: int, seed: int) -> list[str]:
    """One number of ranks: all mutants where it is small, a sample otherwise."""
    counts: Counter[str] = Counter()
    began = time.process_time()
    for schedule in every_builder(ranks):
        own = contributions(schedule.contract, ranks)
        found = [*program_mutants(compile_schedule(schedule)), *schedule_mutants(schedule)]
        for mutant in found if ranks in SMALL else sampled(found, most, seed):
            counts["mutants"] += 1
            if not is_accepted(mutant, schedule.contract):
                counts["rejected"] += 1
                continue
            try:
                right = ranks in SMALL and every_timing(mutant.program, schedule.contract, own)
                counts["exhaustive"] += right
            except TooManyStatesError:
                right = False
            if not right:
                right = survives(mutant.program, schedule.contract)
                counts["random"] += right
            if not right:
                counts["wrong"] += 1
                print(f"  wrong: {schedule.name} among {ranks}: {mutant.edit}", flush=True)
    names = ("mutants", "rejected", "exhaustive", "random", "wrong")
    return [str(ranks), *(str(counts[name]) for name in names), f"{time.process_time() - began:.0f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=60, help="mutants a builder from 5 ranks (60)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    heading(f"Mutants of schedules: all of 2 to 4 ranks, {given.most} a builder of 5 to 9, seed {given.seed}")
    rows = [row(ranks, given.most, given.seed) for ranks in (*SMALL, *LARGE)]
    columns = ["ranks", "mutants", "rejected", "accepted, right in every interleaving"]
    columns += [f"accepted, right in {RANDOM_TIMINGS} random timings", "accepted and wrong", "CPU s"]
    table(columns, rows)
    return 1 if any(int(cells[5]) for cells in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
