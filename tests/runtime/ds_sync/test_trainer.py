"""The trainer over Gloo: averages are the pattern's, on every rank and in every phase."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.plan.ds_sync.consensus import averaging
from netprobe.plan.ds_sync.document import numbered
from tests.runtime.ds_sync import tasks
from tests.runtime.ds_sync.worlds import World, plan_of

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(4)
    yield made
    made.end()


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("racks", [[2, 2], [3, 1], [1, 1, 1, 1], [4]])
def test_parameters_are_the_product_of_the_averages(world: World, racks: list[int], overlap: bool) -> None:
    """x <- W_t (x - lr g), with W_t doubly stochastic, by hand."""
    seen = np.array(world.run(tasks.walk, racks, 7, overlap))
    plan = plan_of(racks)
    pattern = numbered(plan.pattern, plan.racks)
    x = 10.0 * np.arange(4)
    for t in range(7):
        x = averaging(pattern[t % len(pattern)].groups, 4) @ (x - 0.25 * np.arange(1, 5))
        assert seen[:, t, :] == pytest.approx(np.repeat(x[:, None], 6, axis=1), rel=1e-5)


def test_every_rank_starts_as_rank_0(world: World) -> None:
    starts = world.run(tasks.start)
    assert all(one == starts[0] for one in starts)
    assert starts[0][-1] == 0.0


@pytest.mark.parametrize("bucket_bytes", [1, 300, 1 << 20])
def test_overlap_changes_nothing_but_the_time(world: World, bucket_bytes: int) -> None:
    plain = world.run(tasks.train, [3, 1], 5, {"bucket_bytes": bucket_bytes})
    assert world.run(tasks.train, [3, 1], 5, {"bucket_bytes": bucket_bytes, "overlap": True}) == plain
    assert plain[0] != plain[3]


def test_gradients_accumulate_inside_no_sync(world: World) -> None:
    for plain, overlapped in world.run(tasks.accumulate):
        assert plain == overlapped


def test_a_run_from_a_checkpoint_goes_on_in_its_phase(world: World, tmp_path: Path) -> None:
    for whole, resumed, begins in world.run(tasks.resume, str(tmp_path), 4, 9):
        assert begins == 4
        assert resumed == whole


def test_checkpoints_of_different_iterations_are_refused(world: World) -> None:
    assert [answer[0] for answer in world.run(tasks.mixed_up_checkpoints)] == ["InputError"] * 4


def test_all_ranks_take_the_same_new_pattern(world: World) -> None:
    answers = world.run(tasks.adjust, 2, 14)
    assert all(hosts == [2] for _, hosts, _ in answers)
    for t in range(14):
        groups = {groups[t] for groups, _, _ in answers}
        assert sorted(rank for group in groups for rank in group) == [0, 1, 2, 3]
        assert t < 6 or (2, 3) not in groups
    assert any((2, 3) in {groups[t] for groups, _, _ in answers} for t in range(6))


def test_a_world_elsewhere_is_refused_on_every_rank(world: World) -> None:
    for name, _, data in world.run(tasks.elsewhere, ["h0", "h1", "other", "h3"]):
        assert name == "WrongWorldError"
        assert data["ranks"] == (2,)
        assert data["missing"] == ("h2",)


def test_ranks_may_be_in_any_order(world: World) -> None:
    assert world.run(tasks.elsewhere, ["h3", "h1", "h0", "h2"]) == [None] * 4


@pytest.mark.parametrize("ensemble", [None, 0.5])
def test_the_end_is_one_model_with_statistics_of_its_own(world: World, ensemble: float | None) -> None:
    answers = world.run(tasks.end, ensemble)
    before = np.array([one[0] for one in answers])
    after = np.array([one[1] for one in answers])
    assert (after == after[0]).all()
    if ensemble is None:
        assert after[0] == pytest.approx(before.mean(axis=0), rel=1e-5, abs=1e-6)
    else:
        assert after[0] != pytest.approx(before.mean(axis=0), rel=1e-5, abs=1e-6)
    assert all(one[2] == answers[0][2] for one in answers)
    import torch

    model = tasks.network(0, normalised=True)
    torch.nn.utils.vector_to_parameters(torch.tensor(after[0], dtype=torch.float32), model.parameters())
    inputs = []
    for rank in range(4):
        torch.manual_seed(rank)
        inputs.append(torch.cat([torch.randn(500, 6) + rank for _ in range(2)]))
    hidden = model[0](torch.cat(inputs))
    mean, variance = np.array(answers[0][2]).reshape(2, 8)
    assert mean == pytest.approx(hidden.mean(dim=0).tolist(), abs=1e-4)
    assert variance == pytest.approx(hidden.var(dim=0).tolist(), rel=0.01)


def test_an_ensemble_needs_batches_for_its_statistics(world: World) -> None:
    assert [answer[0] for answer in world.run(tasks.without_batches)] == ["InputError"] * 4


def test_ranks_that_finish_after_different_iterations_are_refused(world: World) -> None:
    for name, text, _ in world.run(tasks.end_apart):
        assert name == "InputError"
        assert "h0 after 0, h1 after 1" in text


def test_a_rank_with_fewer_batches_is_named() -> None:
    """Its last sum would meet one of an iteration of the others."""
    world = World(3)
    try:
        for rank, (name, text, data) in enumerate(world.run(tasks.end_early, 1, 10)):
            assert "give all ranks as many batches" in text
            assert name == ("InputError" if rank == 1 else "RankLostError")
            assert rank == 1 or data["rank"] == 1
    finally:
        world.end()


@pytest.mark.parametrize(
    ("how", "overlap", "adjusts"),
    [(tasks.KILLED, True, False), (tasks.STOPPED, False, False), (tasks.KILLED, False, True)],
)
def test_a_rank_that_ends_is_named_by_all_others(how: int, overlap: bool, adjusts: bool) -> None:
    world = World(3)
    try:
        world.begin(tasks.die, 1, how, overlap, adjusts)
        for rank in (0, 2):
            name, _, data = world.answer(rank)
            assert (name, data["rank"], data["host"]) == ("RankLostError", 1, "h1")
    finally:
        world.end()
