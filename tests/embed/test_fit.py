"""Fitting: what comes out is denoised, complete, keeps the racks, and depends on nothing it should not."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.core.errors import InputError, PlatformError
from netprobe.embed import METHODS, Embedding, EmbedOptions, fit_embedding
from netprobe.embed.prepare import check_matrix, prepare
from tests.properties import examples

INSIDE, BETWEEN = 100e-6, 300e-6
QUICK = EmbedOptions(iterations=60, restarts=1)
PLINK = EmbedOptions(method="plink")


def racks(sizes: tuple[int, ...], seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Directed RTTs with 3 to 6 us on top, shuffled, and which pairs share a rack."""
    rng = np.random.default_rng(seed)
    rack = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    same = rack[:, None] == rack[None, :]
    rtt = np.where(same, INSIDE, BETWEEN) + rng.uniform(3e-6, 6e-6, same.shape)
    np.fill_diagonal(rtt, 0.0)
    return rtt, same & ~np.eye(len(rack), dtype=bool)


def assert_well_formed(embedding: Embedding, n: int, dimensions: int) -> None:
    distance = embedding.distance_s
    assert distance.shape == (n, n)
    assert np.isfinite(distance).all() and (distance >= 0).all()
    assert np.array_equal(distance, distance.T)
    assert not distance.diagonal().any()
    assert embedding.coordinates.shape == (n, dimensions)
    assert np.isfinite(embedding.coordinates).all()
    assert embedding.heights_s.shape == (n,) and (embedding.heights_s >= 0).all()
    assert embedding.stress >= 0


@pytest.mark.parametrize("sizes", [(6, 6, 4), (3, 6, 9), (4, 4, 4, 4), (8, 8), (2,) * 8, (6, 5, 1)], ids=str)
def test_the_levels_of_racks_are_kept(sizes: tuple[int, ...]) -> None:
    rtt, same = racks(sizes, 1)
    distance = fit_embedding(rtt, options=EmbedOptions(), seed=1).distance_s
    between = ~same & ~np.eye(len(rtt), dtype=bool)
    assert np.abs(distance[same] / 104.5e-6 - 1).max() < 0.03
    assert np.abs(distance[between] / 304.5e-6 - 1).max() < 0.03


@pytest.mark.parametrize("sizes", [(6, 6, 4), (8, 8)], ids=str)
def test_a_third_of_the_pairs_may_be_missing(sizes: tuple[int, ...]) -> None:
    for seed in range(4):
        rtt, same = racks(sizes, seed)
        hidden = np.triu(np.random.default_rng(seed).random(rtt.shape) < 0.3, 1)
        rtt[hidden | hidden.T] = np.nan
        embedding = fit_embedding(rtt, options=QUICK, seed=1)
        truth = np.where(same, 104.5e-6, 304.5e-6)
        off = ~np.eye(len(rtt), dtype=bool)
        assert np.abs(embedding.distance_s / truth - 1)[off].max() < 0.1
        assert not embedding.unidentified.any()


def test_outliers_and_one_missing_direction_do_no_harm() -> None:
    rtt, same = racks((6, 6, 4), 2)
    rng = np.random.default_rng(2)
    off = ~np.eye(16, dtype=bool)
    rtt[(rng.random(rtt.shape) < 0.05) & off] *= 4.0
    rtt[0, 5] = np.nan
    distance = fit_embedding(rtt, options=QUICK, seed=1).distance_s
    assert np.abs(distance / np.where(same, 104.5e-6, 304.5e-6) - 1)[off].max() < 0.2


def test_noise_is_taken_out() -> None:
    rtt, same = racks((8, 8, 8), 3)
    noisy = rtt * np.exp(np.random.default_rng(3).normal(0, 0.15, rtt.shape))
    embedding = fit_embedding(noisy, options=QUICK, seed=1)
    spread = embedding.distance_s[same].std() / embedding.distance_s[same].mean()
    assert spread < 0.4 * noisy[same].std() / noisy[same].mean()
    error = embedding.held_out_median_relative_error
    assert error is not None and error < 0.12
    assert embedding.held_out_pairs >= 20


def test_plink_fits_what_can_be_fitted() -> None:
    """Points in space are recovered, with alpha and with heights: the objective is the published one."""
    rng = np.random.default_rng(5)
    points = rng.uniform(0, 1e-3, (14, 2))
    height = rng.uniform(0, 2e-4, 14)
    apart = np.sqrt(((points[:, None] - points[None, :]) ** 2).sum(axis=2))
    for alpha, heights in [(1.0, False), (1.0, True), (1.5, False), (2.0, False)]:
        target = apart**alpha + (height[:, None] + height[None, :] if heights else 0.0)
        np.fill_diagonal(target, 0.0)
        options = EmbedOptions(method="plink", alpha=alpha, dimensions=2, heights=heights, iterations=600)
        embedding = fit_embedding(target, options=options, seed=0)
        assert embedding.stress < 0.01
        model = np.sqrt(((embedding.coordinates[:, None] - embedding.coordinates[None, :]) ** 2).sum(axis=2))
        model = model**alpha + embedding.heights_s[:, None] + embedding.heights_s[None, :]
        np.fill_diagonal(model, 0.0)
        assert np.allclose(model, embedding.distance_s, rtol=1e-6, atol=1e-12)
        assert np.median(np.abs(model - target)[target > 0] / target[target > 0]) < 0.02


def test_plink_takes_the_larger_direction_and_ensemble_does_not() -> None:
    lopsided = np.array([[0.0, 1.0], [3.0, 0.0]])
    assert fit_embedding(lopsided, options=PLINK, seed=0).distance_s[0, 1] == pytest.approx(3.0, rel=0.01)
    assert fit_embedding(lopsided, options=QUICK, seed=0).distance_s[0, 1] == pytest.approx(1.25)


def test_directions_that_all_vary_are_averaged_and_a_disturbed_one_is_not() -> None:
    noise = np.exp(np.random.default_rng(1).normal(0.0, 0.3, (12, 12)))
    steady = np.ones((12, 12))
    for readings, slack in ((noise, np.exp(0.3 * np.sqrt(2))), (steady, 1.25)):
        matrix = readings.copy()
        matrix[0, 1], matrix[1, 0] = 50.0, 1.0
        ready = prepare(check_matrix(matrix), larger_direction=False)
        joined = ready.distance * ready.scale_s
        assert joined[0, 1] == pytest.approx(slack, rel=0.25)
        close = np.abs(np.log(matrix / matrix.T)) < 0.2
        np.fill_diagonal(close, False)
        np.testing.assert_allclose(joined[close], ((matrix + matrix.T) / 2)[close])


@pytest.mark.parametrize("options", [QUICK, PLINK, EmbedOptions(method="plink", alpha=2.0)], ids=str)
def test_the_unit_does_not_matter(options: EmbedOptions) -> None:
    rtt, _ = racks((6, 6, 4), 4)
    seconds = fit_embedding(rtt, options=options, seed=3)
    micros = fit_embedding(rtt * 1e6, options=options, seed=3)
    assert np.allclose(micros.distance_s, seconds.distance_s * 1e6, rtol=1e-9)
    assert micros.stress == pytest.approx(seconds.stress)


@examples(25)
@given(st.integers(1, 9), st.integers(0, 10**6), st.sampled_from(METHODS), st.booleans())
def test_the_result_is_always_well_formed(n: int, seed: int, method: Any, zeros: bool) -> None:
    rng = np.random.default_rng(seed)
    rtt = rng.uniform(0, 1e-3, (n, n))
    rtt[rng.random((n, n)) < 0.2] = 0.0 if zeros else np.nan
    known = np.isfinite(rtt) | np.isfinite(rtt.T)
    np.fill_diagonal(known, False)
    if n > 1 and not known.any(axis=1).all():
        return
    options = EmbedOptions(method=method, iterations=20, restarts=1, dimensions=2)
    assert_well_formed(fit_embedding(rtt, options=options, seed=seed), n, 2)


def test_the_order_of_hosts_does_not_change_a_distance() -> None:
    rtt, _ = racks((3, 6, 9), 6)
    order = np.random.default_rng(0).permutation(len(rtt))
    straight = fit_embedding(rtt, options=QUICK, seed=0).distance_s
    turned = fit_embedding(rtt[np.ix_(order, order)], options=QUICK, seed=0).distance_s
    assert np.allclose(straight[np.ix_(order, order)], turned, rtol=1e-9)


@pytest.mark.slow
def test_a_run_repeats_itself_and_leaves_torch_as_it_was() -> None:
    import torch

    rtt, _ = racks((6, 6, 4), 7)
    on_torch = EmbedOptions(backend="torch", iterations=40)
    threads, state = torch.get_num_threads(), torch.get_rng_state().clone()
    try:
        torch.set_num_threads(2)
        first = fit_embedding(rtt, options=on_torch, seed=9)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        again = fit_embedding(rtt, options=on_torch, seed=9)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(first.distance_s, again.distance_s)
    assert np.array_equal(first.coordinates, again.coordinates)


@pytest.mark.parametrize("n", [1, 2, 3, 16])
@pytest.mark.parametrize("value", [0.0, 2e-4])
def test_equal_distances_are_trivial(n: int, value: float) -> None:
    embedding = fit_embedding(np.full((n, n), value), options=QUICK, seed=0)
    off = ~np.eye(n, dtype=bool)
    assert np.allclose(embedding.distance_s[off], value)
    assert_well_formed(embedding, n, 3)


def test_islands_are_filled_and_flagged() -> None:
    rtt = np.full((8, 8), np.nan)
    rtt[:4, :4], rtt[4:, 4:] = 1.0, 2.0
    embedding = fit_embedding(rtt, options=QUICK, seed=0)
    assert embedding.unidentified.sum() == 32
    assert embedding.unidentified[0, 4] and not embedding.unidentified[0, 1]
    assert np.allclose(embedding.distance_s[0, 1:4], 1.0, rtol=0.02)
    assert 1.0 < embedding.distance_s[0, 4] < 2.0


def test_a_slow_host_keeps_its_own_distances() -> None:
    rtt, same = racks((6, 6, 4), 8)
    rtt[3, :] += 200e-6
    rtt[:, 3] += 200e-6
    distance = fit_embedding(rtt, options=QUICK, seed=0).distance_s
    others = np.arange(16) != 3
    expected = np.where(same[3], 304.5e-6, 504.5e-6)
    assert np.abs(distance[3] / expected - 1)[others].max() < 0.03


def test_bad_input_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"alpha is 2\.5.*held_out is 0\.9"):
        EmbedOptions(alpha=2.5, held_out=0.9)
    with pytest.raises(InputError, match="square"):
        fit_embedding(np.ones((2, 3)), options=QUICK, seed=0)
    with pytest.raises(InputError, match="not negative"):
        fit_embedding(np.full((2, 2), -1.0), options=QUICK, seed=0)
    lonely = np.ones((3, 3))
    lonely[2, :] = lonely[:, 2] = np.nan
    with pytest.raises(InputError, match="host number 2"):
        fit_embedding(lonely, options=QUICK, seed=0)


def test_without_torch_a_map_is_made_and_torch_by_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for method in METHODS:
        fit_embedding(np.ones((4, 4)), options=EmbedOptions(method=method, iterations=5), seed=0)
    with pytest.raises(PlatformError, match=r"pip install 'netprobe-fleet\[map\]'"):
        fit_embedding(np.ones((4, 4)), options=EmbedOptions(backend="torch"), seed=0)
