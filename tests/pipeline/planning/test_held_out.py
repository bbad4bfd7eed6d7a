"""What the readings behind a map add to it: persistently slow links, and readings that were slow once."""

from __future__ import annotations

import numpy as np
import pytest

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.pipeline import map_scan
from netprobe.pipeline.planning.held_out import readings_of
from netprobe.plan.costs import cost_model, latency_only
from netprobe.plan.order.strategies import strategy_of
from netprobe.plan.order.strategy import Effort
from netprobe.plan.search.leaves import leaf_order
from tests.documents import make_scan, rack_labels

RACKS = (8, 8, 8)
SLOW = [(0, 9), (1, 2), (5, 17), (10, 11), (12, 20), (18, 19)]


def fleet(*, persistent: bool) -> tuple[FloatMatrix, FloatMatrix]:
    """Round trips without noise, and readings in which some were three times as slow: both of a pair's, or one."""
    rack = np.array(rack_labels(RACKS))
    base: FloatMatrix = np.where(rack[:, None] == rack[None, :], 8e-5, 2.4e-4)
    np.fill_diagonal(base, np.nan)
    slow = base.copy()
    for src, dst in SLOW:
        slow[src, dst] *= 3
        slow[dst, src] *= 3 if persistent else 1
    noise = np.exp(np.random.default_rng(1).normal(0.0, 0.03, base.shape))
    return (slow if persistent else base), slow * noise


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [True, False])
def test_pairs_that_both_readings_find_slow_are_at_their_full_cost(persistent: bool) -> None:
    base, raw = fleet(persistent=persistent)
    scan = make_scan(raw, visits=False)
    map_ = map_scan(scan)
    readings = readings_of(map_, scan)
    assert readings.search is not None and readings.slow_repeats == persistent
    assert all((fold.slow is not None) == persistent for fold in readings.folds) and len(readings.folds) == 2
    if not persistent:
        assert readings.slow is None
        return
    assert readings.slow is not None
    raised = np.argwhere(np.triu(readings.slow.alpha_s > readings.search.alpha_s * (1 + 1e-9)))
    assert [tuple(pair) for pair in raised.tolist()] == SLOW
    at = tuple(np.array(SLOW).T)
    assert readings.slow.alpha_s[at] == pytest.approx(base[at] / 2, rel=0.15)
    # An order is found that avoids them all: it costs what it would without them.
    full = np.where(np.isnan(base), 0.0, base)
    link, clean = latency_only(full), latency_only(np.minimum(full, 2.4e-4))
    model, hosts = cost_model("halving-doubling"), list(range(len(base)))
    leaf = leaf_order(np.asarray(map_.distance), 0)
    costs = readings.among(hosts, readings.search.among(hosts))
    found = strategy_of("halving-doubling").search(costs, hosts, leaf, Effort(seed=1, iterations=3000))
    assert found.runs == 3
    assert model.cost(found.order, link) == model.cost(found.order, clean)


def test_a_fold_is_searched_on_one_reading_of_each_pair_and_priced_on_the_other() -> None:
    _, raw = fleet(persistent=False)
    map_ = map_scan(make_scan(raw, visits=False))
    first, second = readings_of(map_, make_scan(raw, visits=False)).folds
    upper = np.triu_indices(len(raw), 1)
    readings = np.sort([raw[upper], raw.T[upper]], axis=0)
    unseen = np.sort([2 * first.unseen.alpha_s[upper], 2 * second.unseen.alpha_s[upper]], axis=0)
    assert unseen == pytest.approx(readings, rel=1e-8)
    # Other readings in the half that is held out: nothing that is searched on may change.
    held = np.isclose(raw, 2 * first.unseen.alpha_s, rtol=1e-8, atol=0)
    assert int(held.sum()) == len(upper[0])
    changed = np.where(held, raw * 1.5, raw)
    again, other = readings_of(map_, make_scan(changed, visits=False)).folds
    assert np.array_equal(again.denoised.alpha_s, first.denoised.alpha_s)
    assert np.array_equal(again.search.alpha_s, first.search.alpha_s)
    assert again.unseen.alpha_s[upper] == pytest.approx(1.5 * first.unseen.alpha_s[upper], rel=1e-8)
    assert not np.array_equal(other.search.alpha_s, second.search.alpha_s)


def test_no_fold_searches_on_what_it_is_priced_on_where_links_are_slow_or_lack_a_reading() -> None:
    """The costs of slow links too, and a pair with one reading, which only one of the folds has."""
    _, raw = fleet(persistent=True)
    lacking = [(3, 12), (20, 4), (7, 6)]
    for src, dst in lacking:
        raw[src, dst] = np.nan
    map_ = map_scan(make_scan(raw, visits=False))
    first, second = readings_of(map_, make_scan(raw, visits=False)).folds
    for src, dst in lacking:
        # Half of the folds hold the one reading out; the other prices what its own half says, for every order.
        at, back = (src, dst), (dst, src)
        held = [fold for fold in (first, second) if 2 * fold.unseen.alpha_s[at] == pytest.approx(raw[back])]
        assert len(held) == 1
        (seen,) = (fold for fold in (first, second) if fold is not held[0])
        assert seen.unseen.alpha_s[at] == seen.denoised.alpha_s[at]
    # One reading held out of a pair that is not slow: no cost that is searched on changes, but the fold's own price.
    held_out = np.argwhere(np.isclose(raw, 2 * first.unseen.alpha_s, rtol=1e-8, atol=0)).tolist()
    src, dst = next(
        (i, j) for i, j in held_out if tuple(sorted((i, j))) not in SLOW and not np.isnan(raw[j, i])
    )
    changed = raw.copy()
    changed[src, dst] *= 1.01
    again, other = readings_of(map_, make_scan(changed, visits=False)).folds
    assert first.slow is not None and again.slow is not None
    assert np.array_equal(again.denoised.alpha_s, first.denoised.alpha_s)
    assert np.array_equal(again.search.alpha_s, first.search.alpha_s)
    assert again.slow.alpha_s == pytest.approx(
        first.slow.alpha_s, rel=1e-3
    )  # by what is usual of all readings
    assert again.slow.alpha_s[src, dst] == first.slow.alpha_s[src, dst]
    assert again.unseen.alpha_s[src, dst] == pytest.approx(1.01 * first.unseen.alpha_s[src, dst])
    assert not np.array_equal(other.search.alpha_s, second.search.alpha_s)
    # A slow pair whose held-out reading was quick after all: the fold that did not see it still calls it slow.
    src, dst = next((i, j) for i, j in held_out if tuple(sorted((i, j))) in SLOW)
    changed = raw.copy()
    changed[src, dst] /= 3
    again, _ = readings_of(map_, make_scan(changed, visits=False)).folds
    assert again.slow is not None
    assert again.slow.alpha_s[src, dst] == pytest.approx(first.slow.alpha_s[src, dst], rel=1e-2)
    assert again.slow.alpha_s[src, dst] > 1.5 * again.search.alpha_s[src, dst]
