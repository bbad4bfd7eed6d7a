"""What orders cost on readings held out, and how sure a gain is, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from netprobe.plan import Fold, Links
from netprobe.plan.costs import latency_only
from netprobe.plan.order import cross_validation
from netprobe.plan.order.annealed import AnnealedStrategy, steps_of
from netprobe.plan.order.candidates import candidates
from netprobe.plan.order.cross_validation import DRAWS, held_out_costs
from netprobe.plan.order.figures import MOST_ORDERS, random_orders
from netprobe.plan.order.rings import LargestHopRing
from netprobe.plan.order.strategies import strategy_of
from netprobe.plan.order.strategy import Candidate, Effort, SearchCosts
from netprobe.plan.search.polish import Polished
from tests.plan.fleets import rack_fleet


def test_the_interval_of_a_gain_is_students_on_the_spread_of_both_folds() -> None:
    """Two folds whose errors go together: the deviation of one draw times the square root of two."""
    rng = np.random.default_rng(0)
    prices = np.array([[3.0, 2.0], *np.exp(rng.normal(0.0, 0.1, (DRAWS, 2)))])
    drawn = np.log(prices[1:, 0] / prices[1:, 1])
    for differences, tests in ((11, 1), (11, 2), (2, 1), (400, 2)):
        found = cross_validation._gains(["given", "ring"], prices, differences, tests)["ring"]
        quantile = student.ppf(1 - 0.05 / 2 / tests, differences - 1)
        reach = np.sqrt(2.0) * drawn.std(ddof=1) * quantile
        assert found.ratio == pytest.approx(1.5)
        assert (found.low, found.high) == pytest.approx((1.5 * np.exp(-reach), 1.5 * np.exp(reach)))
    sure = cross_validation._gains(["given", "ring"], prices[:1], 0, 1)["ring"]
    assert (sure.ratio, sure.low, sure.high) == pytest.approx((1.5, 1.5, 1.5))
    free = cross_validation._gains(["given", "ring", "leaf"], np.array([[3.0, 0.0, 1.0]]), 0, 1)
    assert set(free) == {"leaf"} and free["leaf"].ratio == pytest.approx(3.0)


def test_a_disturbed_reading_differs_as_one_of_two_does_and_both_ways_alike() -> None:
    rng = np.random.default_rng(1)
    alpha = np.full((40, 40), 2.0)
    logs = []
    for _ in range(20):
        moved = cross_validation._disturbed(latency_only(2 * alpha), np.array([0.2, 0.4]), rng).alpha_s
        assert np.array_equal(moved, moved.T)
        logs.append(np.log(moved[np.triu_indices(40, 1)] / 2.0))
    every = np.concatenate(logs)
    assert set(np.round(np.abs(every) * math.sqrt(2), 9)) == {0.2, 0.4}
    assert abs(float(every.mean())) < 0.01
    assert float(every.std()) == pytest.approx(math.sqrt((0.2**2 + 0.4**2) / 2 / 2), rel=0.03)


class Told(LargestHopRing):
    """Finds an order that depends on what it is shown."""

    def search(
        self, costs: SearchCosts, original: Sequence[int], leaf: Sequence[int], effort: Effort
    ) -> Candidate:
        """The ring that steps by the number in the corner of what it is searched on."""
        step = int(costs.search.alpha_s[0, 1])
        return Candidate(
            kind="ring", order=tuple(host * step % len(original) for host in range(len(original)))
        )


def fold(search: float, unseen: np.ndarray[Any, Any]) -> Fold:
    links = Links(alpha_s=np.full((7, 7), search))
    return Fold(denoised=links, search=links, unseen=Links(alpha_s=unseen))


def test_each_half_is_priced_on_the_readings_that_its_search_did_not_see() -> None:
    rng = np.random.default_rng(2)
    unseen = rng.uniform(1.0, 2.0, (2, 7, 7))
    folds = [fold(2.0, unseen[0]), fold(3.0, unseen[1])]
    hosts, original = [5, 0, 3, 1, 6, 2, 4], [2, 0, 1, 3, 4, 5, 6]
    strategy = Told(strategy_of("chunked-ring").model)
    found = held_out_costs(strategy, folds, hosts, original, Effort())

    def hops(matrix: np.ndarray[Any, Any], order: Sequence[int]) -> list[float]:
        at = [hosts[place] for place in order]
        return [float(matrix[a, b]) for a, b in zip(at, [*at[1:], at[0]], strict=True)]

    rings = [[place * step % 7 for place in range(7)] for step in (2, 3)]
    largest = [12 * max(hops(matrix, ring)) for matrix, ring in zip(unseen, rings, strict=True)]
    assert found.costs["ring"] == pytest.approx(sum(largest) / 2)
    assert found.costs["given"] == pytest.approx(
        sum(12 * max(hops(matrix, original)) for matrix in unseen) / 2
    )
    sums = [
        sum(sum(hops(m, o)) for m, o in zip(unseen, pair, strict=True)) for pair in (rings, [original] * 2)
    ]
    assert found.hop_sums["ring"].ratio == pytest.approx(sums[1] / sums[0])
    assert found.gains["ring"].ratio == pytest.approx(found.costs["given"] / found.costs["ring"])
    assert found.gains["ring"].low == found.gains["ring"].high == pytest.approx(found.gains["ring"].ratio)
    noisy = held_out_costs(strategy, folds, hosts, original, Effort(), noise=[0.1] * 12)
    assert noisy.costs == found.costs and noisy.gains["ring"].low < noisy.gains["ring"].ratio
    assert noisy == held_out_costs(strategy, folds, hosts, original, Effort(), noise=[0.1] * 12)
    plain = held_out_costs(strategy_of("ring"), folds, hosts, original, Effort(iterations=5))
    assert not plain.hop_sums and set(plain.gains) == {"leaf", "ring"}
    assert held_out_costs(strategy, [], hosts, original, Effort()).costs == {}


@pytest.mark.parametrize("better", [True, False])
def test_a_polished_order_is_a_candidate_where_it_costs_less(
    better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = strategy_of("bcube")
    costs = latency_only(2 * rack_fleet((4, 4), 1)[0])
    asked: dict[str, Any] = {}
    cheapest = (0, 7, 1, 6, 2, 5, 3, 4)

    def polished(model: Any, judge: Any, order: Any, **options: Any) -> Polished:
        asked.update(model=model, judge=judge, order=order, **options)
        return Polished(order=cheapest if better else order, proven=False)

    def searched(*_arguments: Any) -> Candidate:
        return Candidate(kind="annealed", order=tuple(range(8)))

    monkeypatch.setattr("netprobe.plan.order.candidates.polish", polished)
    monkeypatch.setattr(AnnealedStrategy, "search", searched)
    monkeypatch.setattr(
        strategy.model.__class__, "cost", lambda _model, order, _costs: 1.0 + (order != cheapest)
    )
    shown = SearchCosts(denoised=costs, search=costs, slow=latency_only(np.ones((8, 8))))
    made = candidates(strategy, shown, range(8), Effort(seed=9), exact_s=3.0)
    assert [one.kind for one in made] == ["given", "leaf", "annealed", "polished"][: 4 if better else 3]
    assert (asked["judge"], asked["order"], asked["seconds"], asked["seed"]) == (
        shown.slow,
        tuple(range(8)),
        3.0,
        9,
    )
    if better:
        assert made[-1].order == cheapest
    plain = candidates(strategy_of("ring"), shown, range(8), Effort(iterations=5))
    assert [one.kind for one in plain] == ["given", "ring"]


def test_steps_by_hosts() -> None:
    """2,000 a host, 100,000 at most, and so many that steps times hosts are ten million, 30,000 at least."""
    steps = {hosts: steps_of(hosts, Effort()) for hosts in (4, 49, 50, 100, 128, 256, 1024)}
    assert steps == {4: 8000, 49: 98_000, 50: 100_000, 100: 100_000, 128: 78_125, 256: 39_062, 1024: 30_000}
    assert steps_of(4, Effort(iterations=7)) == 7 and steps_of(4, Effort(iterations=-1)) == 0


def test_random_orders_keep_the_root_and_are_figures_of_their_costs() -> None:
    cost = latency_only(rack_fleet((5, 4), 1)[0])
    for name, root in (("bcube", 3), ("chunked-ring", 3)):
        strategy = strategy_of(name)
        found = random_orders(strategy, cost, root=root, seed=4)
        assert len(found.orders) == MOST_ORDERS
        assert {tuple(sorted(order)) for order in found.orders.tolist()} == {tuple(range(9))}
        firsts = set(found.orders[:, 0].tolist())
        assert firsts == ({3} if name == "bcube" else set(range(9)))
        assert found.costs.tolist() == [strategy.price(order, cost) for order in found.orders.tolist()]
        # Each order of the others is as likely as any: no host keeps its place.
        counts = np.array([np.bincount(column, minlength=9) for column in found.orders.T])
        others = np.delete(counts[1:], 3, axis=1) if name == "bcube" else counts
        assert others.min() > 1000 / 9 * 0.6 and others.max() < 1000 / 8 * 1.5
        figures = found.figures()
        assert figures.orders == 1000 and figures.least_s == pytest.approx(found.costs.min())
        assert figures.most_s == pytest.approx(found.costs.max())
        assert figures.mean_s == pytest.approx(found.costs.mean())
        for share, value in figures.percentiles_s.items():
            assert value == pytest.approx(np.percentile(found.costs, int(share)))
        assert strategy.price(found.most_expensive, cost) == found.costs.max()


class Annealings:
    """Stands for annealing: the order of each run, and what was asked of it."""

    def __init__(self, orders: Sequence[Sequence[int]]) -> None:
        self.orders = list(orders)
        self.asked: list[tuple[Any, tuple[int, ...], int, int]] = []

    def __call__(self, model: Any, where: Any, start: Sequence[int], *, steps: int, seed: int) -> Any:
        self.asked.append((where, tuple(start), steps, seed))
        order = tuple(self.orders[(len(self.asked) - 1) % len(self.orders)])
        return Candidate(kind="annealed", order=order, steps=steps)


def test_runs_have_seeds_of_their_own_and_slow_links_decide_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy = strategy_of("bcube")
    search, slow = (latency_only(rack_fleet((3, 3), seed)[0]) for seed in (1, 2))
    orders = [[0, *rest] for rest in ([1, 2, 3, 4, 5], [5, 3, 1, 2, 4], [2, 4, 1, 3, 5])]
    monkeypatch.setattr("netprobe.plan.order.annealed.on_a_grid", lambda costs: costs)
    for given, judge in ((None, search), (slow, slow)):
        runs = Annealings(orders)
        monkeypatch.setattr("netprobe.plan.order.annealed.anneal", runs)
        shown = SearchCosts(denoised=search, search=search, slow=given)
        leaf = (0, 4, 2, 5, 3, 1)
        found = strategy.search(shown, orders[0], leaf, Effort(seed=2, iterations=5))
        price = strategy.model.cost
        first = leaf if price(leaf, search) < price(orders[0], search) else tuple(orders[0])
        # The given order is what has to be beaten; the runs begin where it is cheaper to begin.
        best = min([orders[0], *orders[: len(runs.asked)]], key=lambda order: price(order, judge))
        assert found.order == tuple(best) and (found.runs, found.steps) == (
            len(runs.asked),
            5 * len(runs.asked),
        )
        assert [seed for *_, seed in runs.asked] == [2_000_006, 2_000_007, 2_000_008][: len(runs.asked)]
        assert [(where, start) for where, start, *_ in runs.asked[:2]] == [(search, first)] * 2
        assert len(runs.asked) == (2 if given is None else 3)
        if given is not None:
            so_far = min([orders[0], *orders[:2]], key=lambda order: price(order, slow))
            assert runs.asked[2][:2] == (slow, tuple(so_far))


def test_with_a_time_runs_go_on_until_it_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    strategy = strategy_of("bcube")
    cost = latency_only(rack_fleet((3, 3), 1)[0])
    runs = Annealings([range(6)])
    monkeypatch.setattr("netprobe.plan.order.annealed.anneal", runs)
    monkeypatch.setattr("netprobe.plan.order.annealed.time.monotonic", lambda: next(now))
    shown = SearchCosts(denoised=cost, search=cost)
    # The clock reads 0 at first, and 1, 2, ... before each run beyond the two that are planned.
    found = strategy.search(shown, range(6), range(6), Effort(iterations=1, time_s=4.0))
    assert found.runs == len(runs.asked) == 5
