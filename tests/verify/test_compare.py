"""The arithmetic of comparisons: intervals, correlations, orders at percentiles, and the turns of a comparison."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.plan.costs import RankOrders
from netprobe.probe.records.events import Event, Step
from netprobe.verify.comparison import PROPOSED, ComparisonOptions, Record, compare, survey
from netprobe.verify.correlate import correlate
from netprobe.verify.orders import spread_orders
from netprobe.verify.ratio import outcome_of, ratio_of
from netprobe.verify.run import Contender, Contenders, VerifyOptions, run_comparison
from netprobe.verify.runner import Batch, BlockingRunner, StoppedRunError

times = st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(times, times), min_size=2, max_size=30))
def test_the_interval_is_that_of_student_over_the_logarithms(pairs: list[tuple[float, float]]) -> None:
    found = ratio_of(pairs)
    logs = [math.log(a / b) for a, b in pairs]
    assert found is not None and found.low is not None and found.high is not None
    assert math.log(found.value) == pytest.approx(np.mean(logs), abs=1e-9)
    spread = float(np.std(logs, ddof=1))
    if spread > 1e-9 and found.high < 1e300 and found.low > 1e-300:
        low, high = stats.t.interval(0.95, len(logs) - 1, np.mean(logs), spread / math.sqrt(len(logs)))
        assert math.log(found.low) == pytest.approx(low, abs=1e-6)
        assert math.log(found.high) == pytest.approx(high, abs=1e-6)
    assert found.low <= found.value * (1 + 1e-12) and found.value <= found.high * (1 + 1e-12)


def test_a_verdict_is_what_the_interval_allows() -> None:
    assert ratio_of([]) is None and outcome_of(None, 0.05) == "cannot_tell"
    assert outcome_of(ratio_of([(2.0, 1.0)]), 0.05) == "cannot_tell"
    assert outcome_of(ratio_of([(2.0, 1.0), (2.1, 1.0), (1.9, 1.0)]), 0.05) == "faster"
    assert outcome_of(ratio_of([(1.0, 2.0), (1.0, 2.1), (1.0, 1.9)]), 0.05) == "slower"
    assert outcome_of(ratio_of([(1.001, 1.0), (1.002, 1.0), (0.999, 1.0)]), 0.05) == "same"
    assert outcome_of(ratio_of([(2.0, 1.0), (0.7, 1.0), (1.0, 1.0)]), 0.05) == "cannot_tell"


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=25))
def test_correlations_are_those_of_scipy(values: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in values], [float(b) for _, b in values]
    found = correlate(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found.tau_b is found.ceiling is found.spearman is None
        return
    assert found.tau_b == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert found.ceiling is not None and abs(found.tau_b or 0) <= found.ceiling + 1e-12 <= 1 + 1e-9


def test_the_ceiling_is_what_a_prediction_with_ties_can_reach() -> None:
    found = correlate([1, 1, 2, 2], [1, 2, 3, 4])
    assert found.tau_b == pytest.approx(found.ceiling) and found.ceiling == pytest.approx(
        4 / math.sqrt(4 * 6)
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 16])
def test_orders_lie_where_they_were_asked_for(size: int) -> None:
    racks = np.arange(size) // 4
    cost = np.where(racks[:, None] == racks, 1.0, 3.0) + np.random.default_rng(1).random((size, size)) * 0.1

    def price(orders: RankOrders) -> NDArray[np.float64]:
        total: NDArray[np.float64] = cost[orders, np.roll(orders, -1, axis=1)].sum(axis=1)
        return total

    found = spread_orders(tuple(range(size)), price, 6, seed=2)
    assert len({one.order for one in found}) == 6 and all(
        sorted(one.order) == list(range(size)) for one in found
    )
    assert all(one.order[0] == 0 for one in found) and found == spread_orders(
        tuple(range(size)), price, 6, seed=2
    )
    costs = [one.cost for one in found]
    assert costs == sorted(costs) and found[-1].percentile == 100
    if size == 16:
        for number, one in enumerate(found, 1):
            assert abs(one.percentile - 100 * number / 6) < 8
    flat = spread_orders(tuple(range(size)), lambda orders: np.ones(len(orders)), 6)
    assert flat == []
    with pytest.raises(InputError, match="1 orders"):
        spread_orders((0, 1, 2), price, 1)


class FakeRunner:
    """Takes the time that each order takes, on a clock of its own; stops after so many repetitions."""

    def __init__(
        self,
        seconds: dict[int, float],
        *,
        most: int = 1 << 30,
        noise: float = 0.0,
        around_s: float = 0.0,
        batch_s: float = 2.0,
    ) -> None:
        self.seconds, self.most, self.now = seconds, most, 0.0
        self.around_s, self.batch_s = around_s, batch_s
        self.ran: list[int] = []
        self.rng = np.random.default_rng(3)
        self.noise = noise

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        found: list[float] = []
        for order in sequence:
            if len(self.ran) >= self.most:
                return Batch(seconds=tuple(found), reason="a: the agent ended")
            self.ran.append(order)
            found.append(self.seconds[order] * math.exp(self.noise * self.rng.normal()))
            self.now += found[-1] + self.around_s
            assert found[-1] < limit_s
        return Batch(seconds=tuple(found))

    def clock(self) -> float:
        return self.now


def test_a_comparison_takes_turns_and_stops_when_it_knows() -> None:
    runner, record = FakeRunner({0: 1.0, 1: 3.0}, noise=0.01), Record()
    asyncio.run(compare(runner, [1], ComparisonOptions(), record, clock=runner.clock))
    assert runner.ran[:10] == [1, 0, 1, 0, 0, 1, 1, 0, 0, 1]
    assert [one.warm_up for one in record.comparison[:3]] == [True, True, False]
    ratio = record.ratio()
    assert (
        ratio is not None
        and ratio.pairs >= 4
        and ratio.width <= 0.05
        and ratio.value == pytest.approx(3, rel=0.05)
    )
    assert runner.now < 60


def test_a_comparison_ends_with_its_time_and_has_a_pair_whatever_it_takes() -> None:
    runner, record = FakeRunner({0: 1.0, 1: 1.0}, noise=0.5), Record()
    asyncio.run(
        compare(runner, [1], ComparisonOptions(time_s=30, precision=0.01), record, clock=runner.clock)
    )
    assert 20 < runner.now < 40
    slow, few = FakeRunner({0: 20.0, 1: 30.0}), Record()
    asyncio.run(compare(slow, [1], ComparisonOptions(time_s=10), few, clock=slow.clock))
    assert slow.ran == [1, 0, 1, 0, 0, 1] and few.pairs() == [(30.0, 20.0)] * 2


class Uneven(FakeRunner):
    """The baseline takes one and three times as long as the proposed order in turn: no interval gets narrow."""

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        found = []
        for order in sequence:
            self.ran.append(order)
            thrice = order != PROPOSED and self.ran.count(order) % 2 == 0
            found.append(self.seconds[order] * (3.0 if thrice else 1.0))
            self.now += found[-1]
        return Batch(seconds=tuple(found))


@pytest.mark.parametrize(
    ("each_s", "wanted", "pairs", "end_s"),
    [(0.9, 6, 6, 18.0), (1.4, 6, 6, 28.0), (1.4, 0, 4, 19.6), (2.0, 6, 4, 28.0), (2.5, 6, 2, 20.0)],
)
def test_runs_that_got_slower_go_on_to_the_pairs_that_are_wanted(
    each_s: float, wanted: int, pairs: int, end_s: float
) -> None:
    """In 20 s: two warm-ups of 2, then blocks of 6, of what a run takes; 30 s at the most, for missing pairs alone."""
    runner, record = Uneven({0: each_s, 1: each_s}), Record()
    options = ComparisonOptions(time_s=20.0, wanted_pairs=wanted)
    asyncio.run(compare(runner, [1], options, record, clock=runner.clock))
    assert len(record.pairs()) == pairs and runner.now == pytest.approx(end_s)


@pytest.mark.parametrize("batch_s", [0.0, 2.0])
def test_what_is_around_a_timed_run_counts_as_time(batch_s: float) -> None:
    """A millisecond of a collective in a job that takes three seconds to start, say."""
    runner, record = FakeRunner({0: 0.001, 1: 0.001}, noise=0.5, around_s=3.0, batch_s=batch_s), Record()
    asyncio.run(
        compare(runner, [1], ComparisonOptions(time_s=60, precision=0.001), record, clock=runner.clock)
    )
    assert 48 < runner.now <= 60.1 and len(record.pairs()) >= 8


def test_random_baselines_take_turns() -> None:
    runner, record = FakeRunner({n: 1.0 + n for n in range(4)}), Record()
    options = ComparisonOptions(time_s=60, precision=0.001)
    asyncio.run(compare(runner, [1, 2, 3], options, record, clock=runner.clock))
    counted = runner.ran[2:]
    assert [order for order in counted if order != PROPOSED][:6] == [1, 2, 3, 1, 2, 3]
    assert {round(baseline) for baseline, _ in record.pairs()} == {2, 3, 4}


def test_what_was_measured_before_it_broke_is_kept() -> None:
    runner, record = FakeRunner({0: 1.0, 1: 2.0}, most=9, noise=0.2), Record()
    with pytest.raises(StoppedRunError, match="the agent ended"):
        asyncio.run(compare(runner, [1], ComparisonOptions(), record, clock=runner.clock))
    assert len(record.comparison) == 9 and len(record.pairs()) == 3


def test_what_waits_for_its_end_is_a_runner_too() -> None:
    def once(order: int, timeout_s: float) -> float:
        if order == 9:
            raise NothingMeasuredError("gloo: rank 3 is gone")
        return min(2.0 + order, timeout_s)

    runner = BlockingRunner(once)
    assert asyncio.run(runner.repeat([0, 1], 60.0)) == Batch(seconds=(2.0, 3.0))
    assert asyncio.run(runner.repeat([1, 9, 0], 60.0)) == Batch(seconds=(3.0,), reason="gloo: rank 3 is gone")


def test_a_survey_runs_every_order_as_often_as_the_time_allows() -> None:
    runner, record = FakeRunner({n: 0.5 * n for n in range(2, 6)}), Record()
    asyncio.run(survey(runner, range(2, 6), ComparisonOptions(time_s=15), record, clock=runner.clock))
    assert len(runner.ran) == 8 and sorted(runner.ran[:4]) == sorted(runner.ran[4:]) == [2, 3, 4, 5]
    slow, few = FakeRunner(dict.fromkeys(range(2, 12), 1.0), around_s=4.0), Record()
    asyncio.run(survey(slow, range(2, 12), ComparisonOptions(time_s=22), few, clock=slow.clock))
    assert len(set(slow.ran)) == 4  # a fifth would end at 25 s
    slow, few = FakeRunner(dict.fromkeys(range(2, 12), 50.0)), Record()
    asyncio.run(survey(slow, range(2, 12), ComparisonOptions(time_s=22), few, clock=slow.clock))
    assert len(set(slow.ran)) == 2
    refused: list[dict[str, Any]] = [
        {"time_s": 0.1},
        {"precision": 0.0},
        {"precision": 2.0},
        {"time_s": math.nan},
    ]
    for options in refused:
        with pytest.raises(InputError, match="are allowed"):
            ComparisonOptions(**options)


def test_the_time_left_of_a_comparison_and_of_what_follows_is_said() -> None:
    """A clock of its own: runs of 1 s, 20 s for the comparison and as long again for the other orders."""
    runner, said = FakeRunner(dict.fromkeys(range(5), 1.0), noise=0.5), []
    orders = [Contender(name=str(number), order=(0, 1, 2)) for number in range(5)]
    made = Contenders(proposed=orders[0], baselines=(orders[1],), surveyed=tuple(orders[2:]))
    options = VerifyOptions(comparison=ComparisonOptions(time_s=20.0, precision=0.001))
    now: list[float] = []

    def on_event(event: Event) -> None:
        assert isinstance(event, Step) and event.left_s is not None
        said.append((event.text, event.left_s))
        now.append(runner.now)

    asyncio.run(run_comparison(runner, made, options, Record(), on_event, clock=runner.clock))
    comparing = [left_s for text, left_s in said if text == "comparing orders"]
    others = [left_s for text, left_s in said if text == "running orders"]
    assert len(comparing) >= 3 and len(others) >= 3 and len(said) == len(comparing) + len(others)
    assert comparing == [max(0.0, 20.0 - at) + 20.0 for at in now[: len(comparing)]]
    began = now[len(comparing) - 1]
    assert others == [max(0.0, 20.0 - (at - began)) for at in now[len(comparing) :]]
