"""FullyShardedDataParallel with a plan's hook, beside torch's own averages."""

from __future__ import annotations

import pytest

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.schedule import Schedule
from tests.runtime import jobs, training_jobs
from tests.runtime.pool import Pool

TWO_LEVEL = two_level([[0, 1], [2]], 6)
SCATTER = build("reduce-scatter", 3)


@pytest.mark.long  # torch imports its compiler for the first backward pass of FSDP
@pytest.mark.parametrize(
    ("strategy", "schedule"),
    [("NO_SHARD", TWO_LEVEL), ("FULL_SHARD", TWO_LEVEL), ("FULL_SHARD", SCATTER), ("SHARD_GRAD_OP", SCATTER)],
    ids=["whole", "2lha", "reduce-scatter", "gradients only"],
)
def test_models_are_trained_as_without_the_hook(pool: Pool, strategy: str, schedule: Schedule) -> None:
    apart = pool.run(training_jobs.shard, jobs.plan_of(schedule), strategy, ranks=3)
    assert max(apart) <= 1e-5


def test_a_plan_that_leaves_other_shares_is_refused(pool: Pool) -> None:
    """In two blocks a rank's share lies in two places."""
    assert (
        pool.run(training_jobs.shard_refused, jobs.plan_of(build("reduce-scatter", 3, 1, 2)), ranks=3)
        == [True] * 3
    )
    assert pool.run(training_jobs.shard_refused, jobs.plan_of(SCATTER), ranks=3) == [False] * 3


@pytest.mark.parametrize("schedule", [TWO_LEVEL, SCATTER], ids=["2lha", "reduce-scatter"])
def test_a_rank_keeps_its_share_of_the_mean(pool: Pool, schedule: Schedule) -> None:
    """The hook alone, as FSDP calls it; whole gradients need an all-reduce."""
    found = pool.run(training_jobs.shares, jobs.plan_of(schedule), ranks=3)
    whole = "refused" if schedule is SCATTER else [2.0 * i for i in range(6)]
    assert found == [([4.0 * rank, 4.0 * rank + 2.0], whole) for rank in range(3)]
