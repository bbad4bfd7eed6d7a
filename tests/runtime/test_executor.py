"""An executor's results against torch's own all-reduce, among real processes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.runtime.collective import collective_of
from tests.properties import examples
from tests.runtime import jobs, training_jobs
from tests.runtime.conftest import RANKS
from tests.runtime.pool import Pool

DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8")
NAMES = sorted(name for name, algorithm in ALGORITHMS.items() if not algorithm.scatters)


def check(pool: Pool, recipe: tuple[Any, ...], elements: int, dtype: str, op: str, settings: Any) -> None:
    """Every rank has the same bits, and they are right."""
    ranks = jobs.schedule_from(recipe).ranks
    found = pool.run(jobs.compare, recipe, elements, dtype, op, settings, 7, ranks=ranks)
    assert len({bits for bits, _, _ in found}) == 1
    for _, error, allowed in found:
        assert error <= allowed


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_reduces_as_torch_does(pool: Pool, name: str) -> None:
    check(pool, (name, 4, 1, None), 10_001, "float32", "sum", (4096, 4))


@st.composite
def recipes(draw: st.DrawFn) -> tuple[Any, ...]:
    ranks = draw(st.integers(2, RANKS))
    channels = draw(st.integers(1, jobs.CHANNELS))
    kind = draw(st.sampled_from(["2lha", "hierarchical", *NAMES]))
    if kind not in ("2lha", "hierarchical"):
        return (kind, ranks, channels, channels * draw(st.integers(1, 2)))
    order = draw(st.permutations(range(ranks)))
    cuts = sorted(draw(st.sets(st.integers(1, ranks - 1), max_size=3)))
    groups = [list(order[a:b]) for a, b in zip([0, *cuts], [*cuts, ranks])]
    if kind == "2lha":
        return (kind, groups, draw(st.integers(1, 12)), channels)
    return (kind, groups, channels, channels)


@examples(30)
@given(
    recipe=recipes(),
    elements=st.one_of(st.integers(0, 40), st.integers(41, 4_000)),
    dtype=st.sampled_from(DTYPES),
    mean=st.booleans(),
    settings=st.sampled_from([(512, 1, 1), (2048, 3, 0), (512, 3, 2), (1 << 20, 8, 12)]),
)
def test_any_plan_size_and_dtype_reduces_as_torch_does(
    pool: Pool, recipe: Any, elements: int, dtype: str, mean: bool, settings: Any
) -> None:
    op = "mean" if mean and "int" not in dtype else "sum"
    check(pool, recipe, elements, dtype, op, settings)


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_a_step_give_the_same_bits(pool: Pool, name: str) -> None:
    assert all(pool.run(jobs.batched, (name, 4, 2, 2), 5_003, ranks=4))


def test_strided_tensors_several_at_once_and_refusals(pool: Pool) -> None:
    assert pool.run(jobs.odd_tensors, ("2lha", [[0, 1], [2, 3]], 8, 2), ranks=4) == [[]] * 4


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_reduce_scatter_leaves_each_rank_its_chunks(pool: Pool, ranks: int) -> None:
    assert all(pool.run(jobs.scattered, ("reduce-scatter", ranks, 1, 2), 1_003, ranks=ranks))


def test_ranks_may_be_given_in_the_plans_order(pool: Pool) -> None:
    """Ranks 4, 0 and 2 of six, in this order; a rank that is not among them, or twice, is refused."""
    plan = jobs.plan_of(build("chunked-ring", 3))
    ranks, wrong = [4, 0, 2], [[0, 0, 1], [0, 1, 99]]
    found = pool.run(training_jobs.in_order, plan, ranks, wrong)
    assert found == [(6.0 if rank in ranks else 0.0, [True, True]) for rank in range(RANKS)]


def test_several_ranks_a_host_are_refused_and_reduce_first(pool: Pool) -> None:
    plan = jobs.plan_of(build("chunked-ring", 3))
    found = pool.run(training_jobs.locals_first, plan, 3)
    assert [total for total, _ in found] == [15.0] * 6
    assert all(said.startswith("WrongWorldError") and "local ranks" in said for _, said in found)


def test_what_cannot_be_added_is_refused_before_anything_is_sent(pool: Pool) -> None:
    plan = jobs.plan_of(build("chunked-ring", 3))
    assert pool.run(training_jobs.refused_tensors, plan, ranks=3) == [([], True, ["refused"] * 4)] * 3


def test_a_forked_process_is_refused_and_leaves_the_connections_alone(pool: Pool) -> None:
    """Both processes share sockets, and what Gloo watches: the rank ended with the child's first use, or its end."""
    plan = jobs.plan_of(build("chunked-ring", 3))
    assert pool.run(training_jobs.forked, plan, ranks=3) == [(0, 3.0)] * 3


@pytest.mark.parametrize("native", [True, False])
def test_an_interrupted_rank_is_noticed_at_once(pool: Pool, native: bool) -> None:
    """The test's own time ends before that of a message."""
    plan = jobs.plan_of(build("chunked-ring", 3))
    assert pool.run(training_jobs.interrupted, plan, 1, native, ranks=3) == [1, "refused", 1]


def test_a_rank_that_its_group_leaves_out_is_refused_at_once(pool: Pool) -> None:
    said = pool.run(training_jobs.left_out, jobs.plan_of(build("chunked-ring", 3)), ranks=3)
    assert [one.count("is no process group") for one in said] == [3] * 3


@pytest.mark.parametrize("unlike", [(1_000, "int32"), (1_001, "float32")])
def test_unlike_tensors_are_never_added_and_the_ranks_say_so(pool: Pool, unlike: tuple[int, str]) -> None:
    """Gloo alone adds numbers of another type as they are, and ends the process where a message is too long."""
    plan = jobs.plan_of(build("chunked-ring", 3))
    tensors = [(1_000, "float32"), unlike, (1_000, "float32")]
    found = pool.run(training_jobs.unlike, plan, tensors, 2.0, ranks=3)
    assert found == [("reduces", 1), ("reduces", 0), ("reduces", 1)]


@pytest.mark.parametrize("plan", [None, 3, {}, b"plan.json"])
def test_what_is_no_plan_is_refused(plan: Any) -> None:
    with pytest.raises(InputError):
        collective_of(plan)


def test_where_one_rank_lacks_the_library_all_take_torchs_messages_and_rank_0_says_why(pool: Pool) -> None:
    found = pool.run(jobs.without_library, ("chunked-ring", 3, 1, None), 1, ranks=3)
    assert [(native, total) for native, _, total in found] == [(False, 300.0)] * 3
    assert [len(warned) for _, warned, _ in found] == [1, 0, 0]
    assert "rank 1: NETPROBE_NATIVE is 0" in found[0][1][0]
