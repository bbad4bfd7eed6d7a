"""Single edits of what builders make: the proof rejects them, or every timing still gives the right sums."""

from __future__ import annotations

from collections import Counter

import pytest

from netprobe.plan.schedule.program import compile_schedule
from tests.plan.schedule.mutants import (
    Mutant,
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
from tests.properties import LONG


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_small_mutants_are_rejected_or_equal_in_every_interleaving(ranks: int) -> None:
    counts: Counter[str] = Counter()
    for schedule in every_builder(ranks):
        program = compile_schedule(schedule)
        own = contributions(schedule.contract, ranks)
        found: list[Mutant] = [*program_mutants(program), *schedule_mutants(schedule)]
        for mutant in sampled(found, 10_000 if LONG else 40, seed=ranks):
            counts["all"] += 1
            if not is_accepted(mutant, schedule.contract):
                continue
            counts["accepted"] += 1
            try:
                assert every_timing(mutant.program, schedule.contract, own), f"{schedule.name}: {mutant.edit}"
            except TooManyStatesError:
                counts["given up"] += 1
                assert survives(mutant.program, schedule.contract), f"{schedule.name}: {mutant.edit}"
    assert counts["all"] >= 400 and counts["accepted"] > 0 and counts["given up"] <= counts["accepted"] / 10


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [5, 6, 7, 8, 9] if LONG else [5, 7, 9])
def test_larger_mutants_that_are_accepted_survive_random_timings(ranks: int) -> None:
    accepted = 0
    for schedule in every_builder(ranks):
        found = [*program_mutants(compile_schedule(schedule)), *schedule_mutants(schedule)]
        for mutant in sampled(found, 1000 if LONG else 15, seed=ranks):
            if is_accepted(mutant, schedule.contract):
                accepted += 1
                assert survives(mutant.program, schedule.contract, 200 if LONG else 20), (
                    f"{schedule.name}: {mutant.edit}"
                )
    assert accepted > 0


def test_the_exhaustive_run_finds_a_race() -> None:
    """What it is for: a ring of 3 in which a rank's send no longer waits for the sum."""
    schedule = next(s for s in every_builder(3) if s.name == "chunked-ring")
    program = compile_schedule(schedule)
    own = contributions(schedule.contract, 1)
    assert every_timing(program, schedule.contract, own)
    wrong = [
        mutant
        for mutant in program_mutants(program)
        if mutant.edit.endswith("dependency dropped")
        and not every_timing(mutant.program, schedule.contract, own)
    ]
    assert len(wrong) >= 6 and not any(is_accepted(mutant, schedule.contract) for mutant in wrong)
