"""Parts of a comparison with figures by hand: blocks and limits, sizes, predictions, connections, what is loaded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.errors import InputError
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
from netprobe.plan.costs import cost_model
from netprobe.plan.costs.rough_times import RoughTimes
from netprobe.plan.order.link_costs import links_of
from netprobe.plan.simulate.network import network_of
from netprobe.probe.agent.collective.program import MAX_BYTES
from netprobe.verify import orders as orders_module
from netprobe.verify import run as run_module
from netprobe.verify.comparison import ComparisonOptions, Record, Repetition, compare, survey
from netprobe.verify.libraries.library import check_ranks, interleaved, time_orders, warm_bytes
from netprobe.verify.libraries.process_group import LibraryError
from netprobe.verify.orders import most_expensive, spread_orders, swapped, walks
from netprobe.verify.predict import ByCapacity, ByMap
from netprobe.verify.ratio import Ratio, check_precision, outcome_of, ratio_of
from netprobe.verify.run import VerifyOptions, _sized
from netprobe.verify.runner import Batch, StoppedRunError
from netprobe.verify.sizing import LEAST_BYTES, _rounded, fitted_bytes, runs_needed
from tests.maps import made_capacity, made_map


class Timed:
    """A runner whose runs take a second each on its own clock; keeps what was requested."""

    def __init__(self, each_s: float = 1.0, batch_s: float = 1e9, grows: float = 0.0) -> None:
        self.each_s, self.batch_s, self.grows = each_s, batch_s, grows
        self.now = 0.0
        self.asked: list[tuple[list[int], float]] = []

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        self.asked.append((list(sequence), limit_s))
        self.now += self.each_s * len(sequence)
        # No two alike, so that no interval becomes narrow.
        count = sum(len(one) for one, _ in self.asked)
        return Batch(seconds=tuple(self.each_s * (1 + 9 * ((count + i) % 3)) for i in range(len(sequence))))


def compared(runner: Timed, baselines: Sequence[int] = (1,), **options: Any) -> list[tuple[int, float]]:
    said: list[tuple[int, float]] = []

    def progress(done: int, elapsed_s: float, _ratio: Ratio | None) -> None:
        said.append((done, elapsed_s))

    made = ComparisonOptions(**{"precision": 0.001} | options)
    asyncio.run(compare(runner, baselines, made, Record(), on_progress=progress, clock=lambda: runner.now))
    return said


def test_blocks_fill_the_time_and_a_batch_may_take_ten_times_what_it_should() -> None:
    """Two runs to warm up say that a block of four takes 4 s: 14 blocks in the 58 s that are left."""
    runner = Timed()
    said = compared(runner)
    assert runner.asked == [([1, 0], 120.0), ([1, 0, 0, 1] * 14, 560.0)]
    assert said == [(2, 2.0), (58, 58.0)]
    # No more than 64 blocks at once, and no less than a minute for them.
    quick = Timed(each_s=0.01)
    compared(quick)
    assert quick.asked[1] == ([1, 0, 0, 1] * 64, 60.0) and quick.asked[0][1] == 120.0
    assert 58 < quick.now <= 60.0
    short = Timed(each_s=0.1)
    compared(short, time_s=5.0)
    assert short.asked[0][1] == 60.0
    # As long as a batch may take, and one block at the least.
    apart = Timed(batch_s=9.0)
    compared(apart)
    assert [len(sequence) for sequence, _ in apart.asked[1:]] == [8] * 7
    assert [limit for _, limit in apart.asked[1:]] == [80.0] * 7
    single = Timed(batch_s=0.0)
    compared(single)
    assert [len(sequence) for sequence, _ in single.asked[1:]] == [4] * 14


def test_baselines_take_turns_over_blocks() -> None:
    for baselines, blocks in (
        ((1, 2), [[1, 0, 0, 2]] * 3),
        ((1, 2, 3), [[1, 0, 0, 2], [3, 0, 0, 1], [2, 0, 0, 3]]),
        ((4,), [[4, 0, 0, 4]] * 3),
    ):
        runner = Timed(batch_s=0.0)
        compared(runner, baselines)
        assert runner.asked[0][0] == [baselines[0], 0]
        assert [sequence for sequence, _ in runner.asked[1:4]] == blocks


def test_pairs_are_neighbours_in_time_whichever_comes_first() -> None:
    record = Record()
    for order, seconds, warm in ((1, 9.0, True), (0, 9.0, True), (1, 3.0, False), (0, 2.0, False),
                                 (0, 4.0, False), (2, 5.0, False), (1, 7.0, False)):  # fmt: skip
        record.comparison.append(Repetition(order=order, seconds=seconds, warm_up=warm))
    assert record.pairs() == [(3.0, 2.0), (5.0, 4.0)]
    ratio = record.ratio()
    assert ratio is not None and ratio.pairs == 2 and ratio.value == pytest.approx(math.sqrt(1.5 * 1.25))


def test_a_survey_gives_each_run_time_enough_and_passes_differ() -> None:
    runner = Timed(each_s=2.0)
    said: list[tuple[int, float, Ratio | None]] = []
    options = ComparisonOptions(time_s=50.0)
    asyncio.run(
        survey(runner, range(3, 9), options, Record(), seed=5, clock=lambda: runner.now,
               on_progress=lambda *what: said.append(what))
    )  # fmt: skip
    assert said == [(done, 2.0 * done, None) for done in range(1, 25)]
    passes = [runner.asked[i : i + 6] for i in range(0, 24, 6)]
    assert len(runner.asked) == 24 and runner.now == 48.0
    assert all(sorted(one[0][0] for one in each) == list(range(3, 9)) for each in passes)
    assert len({tuple(one[0][0] for one in each) for each in passes}) > 1
    assert {limit for _, limit in runner.asked} == {100.0}
    slow = Timed(each_s=20.0)
    asyncio.run(survey(slow, range(3, 9), ComparisonOptions(time_s=50.0), Record(), clock=lambda: slow.now))
    # A third run may take the 20 s of the longest, which would end after the time; ten times that is its limit.
    assert [limit for _, limit in slow.asked] == [100.0, 200.0]


def test_ratios_and_what_they_allow_to_say() -> None:
    assert ratio_of([]) is None
    single = ratio_of([(3.0, 2.0)])
    assert single is not None and (single.value, single.low, single.width) == (1.5, None, math.inf)
    two = ratio_of([(math.e, 1.0), (math.e**3, 1.0)])
    # Logarithms 1 and 3: mean 2, deviation sqrt(2), and Student's 12.706 of one degree over sqrt(2).
    assert two is not None and two.value == pytest.approx(math.e**2) and two.high is not None
    assert two.high == pytest.approx(math.exp(2 + 12.7062047), rel=1e-6) and two.pairs == 2
    assert two.width == pytest.approx(math.exp(12.7062047) - 1, rel=1e-6)
    far = ratio_of([(1e150, 1e-150), (1.0, 1.0)])
    assert far is not None and far.low == math.exp(-700) and far.high == math.exp(700)

    def said(low: float, high: float) -> str:
        return outcome_of(Ratio(value=1.0, low=low, high=high, pairs=3), 0.05)

    assert (
        said(1 / 1.05, 1.05) == "same"
        and said(0.952, 1.05) == "cannot_tell"
        and said(0.96, 1.051) == "cannot_tell"
    )
    assert said(1.001, 1.2) == "faster" and said(1.0, 1.2) == "cannot_tell"
    assert said(0.5, 0.999) == "slower" and said(0.5, 1.0) == "cannot_tell"
    for precision in (0.001, 1.0):
        check_precision(precision)
    for precision in (0.00099, 1.001):
        with pytest.raises(InputError):
            check_precision(precision)


def test_sizes_of_buffers_are_of_two_digits_and_whole_floats() -> None:
    assert [_rounded(size) for size in (99.9, 123_456.7, 1_990_000.0, 7.0)] == [96, 120_000, 1_900_000, 4]
    # Two warm-ups and six of two orders, or six of each surveyed.
    assert [runs_needed(count) for count in (0, 2, 3, 10)] == [14, 14, 18, 60]


def test_trials_grow_while_there_is_time_and_the_buffer_follows_from_the_last() -> None:
    def sized(most: int, a_s: float, b_s: float, time_s: float, surveyed: int = 0) -> tuple[int, list[int]]:
        tried: list[int] = []

        async def timed(size_bytes: int) -> float:
            tried.append(size_bytes)
            return a_s + b_s * size_bytes

        return asyncio.run(fitted_bytes(most, timed, surveyed=surveyed, time_s=time_s)), tried

    # 512 MB, 1 s a MB: the first trial of 1 MB takes 1 s, 14 runs of 512 s do not fit in 60 s, 4 of 8 s do not in 5.
    size, tried = sized(512_000_000, 0.0, 1e-6, 60.0)
    allowed_s = 0.8 * (60 - 4) / 14
    assert tried == [1_000_000] and size == _rounded(1e6 * allowed_s)
    # It is never smaller than the first trial.
    assert sized(512_000_000, 0.0, 1e-6, 60.0, surveyed=10)[0] == 1_000_000
    assert sized(512_000_000, 0.0, 1e-6, 600.0, surveyed=10)[0] == _rounded(8e6 * 0.8 * (600 - 36) / 60 / 8)
    # Where all fits, all is taken; a buffer as small as the first trial is not tried.
    assert sized(512_000_000, 0.0, 1e-9, 60.0) == (512_000_000, [1_000_000])
    assert sized(LEAST_BYTES, 1.0, 1.0, 60.0) == (LEAST_BYTES, [])
    # Latency alone says little of a larger one: the next is eight times as large, and it grows from there.
    size, tried = sized(512_000_000, 0.1, 1e-7, 60.0)
    assert tried[:2] == [1_000_000, 8_000_000]
    left = 60 - 4 * sum(0.1 + 1e-7 * t for t in tried)
    last = tried[-1]
    assert size == _rounded(last * 0.8 * left / 14 / (0.1 + 1e-7 * last))


def test_what_is_expensive_is_found_and_walks_change_two_hosts_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    start = np.arange(7)
    one = swapped(start, rng)
    assert one[0] == 0 and int((one != start).sum()) == 2 and sorted(one.tolist()) == list(range(7))
    assert swapped(np.array([1, 0]), rng).tolist() == [1, 0]
    found = walks(start, rng)
    assert len(found) == 4096 and found[0].tolist() == list(range(7))
    again = [at for at in range(len(found) - 1) if int((found[at] != found[at + 1]).sum()) != 2]
    # A walk has 14 steps, and each begins where the first did.
    assert {at % 14 for at in again} <= {0}
    for cells, most in ((700, 100), (1, 64), (1 << 30, 4096)):
        monkeypatch.setattr(orders_module, "POOL_CELLS", cells)
        assert len(walks(start, rng)) == most
    weight = np.array([0.0, 3.0, 1.0, 4.0, 1.5, 9.0, 2.6])

    def price(orders: Any) -> Any:
        return (np.asarray(orders) * weight).sum(axis=1) + 100.0

    worst = most_expensive(start, price, np.random.default_rng(1))
    # Large hosts where the weight is large, but for rank 0.
    assert price(worst[None])[0] == price(np.array([[0, *(1 + np.argsort(np.argsort(weight[1:])))]]))[0]
    assert most_expensive(np.array([1, 0]), price, rng).tolist() == [1, 0]
    placed = spread_orders(tuple(range(7)), price, 5, seed=3)
    low, high = min(each.cost for each in placed), max(each.cost for each in placed)
    assert high == price(worst[None])[0] and low < high and placed[-1].percentile == 100.0
    shares = [each.percentile for each in placed]
    assert shares == sorted(shares)
    for each in placed:
        assert each.cost == price(np.array([each.order]))[0]


def test_orders_are_priced_by_the_hosts_of_the_plan_wherever_the_map_has_them() -> None:
    map_ = made_map([3, 3], seed=2)
    hosts = list(map_.hosts)[::-1]
    plan = plan_order(map_, PlanRequest(hosts=hosts, algorithm="chunked-ring"))
    where = {host.name: at for at, host in enumerate(plan.hosts)}
    order = [where[name] for name in plan.order]
    price = ByMap(plan, map_, "chunked-ring")
    orders = [order, order[::-1], [0, 2, 4, 1, 3, 5]]
    alpha = links_of(map_).alpha_s
    at = {host.name: i for i, host in enumerate(map_.hosts)}

    def by_hand(one: Sequence[int]) -> Any:
        names = [plan.hosts[host].name for host in one]
        hops = [alpha[at[a], at[b]] for a, b in zip(names, [*names[1:], names[0]], strict=True)]
        return 2 * (len(one) - 1) * max(hops)

    assert price.costs(orders) == pytest.approx([by_hand(one) for one in orders])
    assert price.rough(orders).tolist() == price.costs(orders).tolist()
    # Of some of the hosts, as where one is not up.
    assert price.costs([[5, 1, 3]]) == pytest.approx([by_hand([5, 1, 3])])


def test_measured_capacities_price_orders_with_their_ends() -> None:
    map_ = made_map([2, 2])
    plan = plan_order(map_, PlanRequest(hosts=list(map_.hosts)[::-1], algorithm="chunked-ring"))
    capacity = made_capacity(map_, uplink=2e7)
    ends = [
        one.model_copy(update={"low_bytes_per_s": 1e7, "high_bytes_per_s": 4e7}) if ":g" in one.id else one
        for one in capacity.resources
    ]
    capacity = capacity.model_copy(update={"resources": ends})
    size = 40_000_000
    price = ByCapacity(plan, capacity, "chunked-ring", size)
    where = {host.name: at for at, host in enumerate(plan.hosts)}
    near, far = [
        [where[name] for name in names] for names in (["h0", "h1", "h2", "h3"], ["h0", "h2", "h1", "h3"])
    ]
    # Six rounds of a quarter; far, two flows share each uplink.
    assert price.costs([near, far]) == pytest.approx([3.0, 6.0]) and not price.has_latency
    assert price.interval(far) == pytest.approx((3.0, 12.0))
    assert ByCapacity(plan, made_capacity(map_), "chunked-ring", size).interval(near) == pytest.approx(
        (0.6, 0.6)
    )
    assert ByCapacity(plan, capacity, "chunked-ring", size, map_).has_latency
    rough = RoughTimes(cost_model("chunked-ring"), network_of(capacity, plan.order))
    places = [[plan.order.index(plan.hosts[host].name) for host in one] for one in (near, far)]
    assert price.rough([near, far]).tolist() == rough.times_s(np.array(places), size).tolist()
    two = ByCapacity(plan, capacity, "chunked-ring", size, channels=2)
    assert two.costs([near]) == pytest.approx([3.0])


class Small:
    """Stands for a runner of a small buffer: each run takes as many seconds as it has megabytes."""

    made: list[Small]
    reason: str | None = None

    def __init__(self, members: Any, runs: Any, *, size_bytes: int, ports: Any) -> None:
        self.members, self.runs, self.size_bytes, self.ports = members, runs, size_bytes, ports
        self.asked: list[Any] = []
        self.made.append(self)

    async def open(self) -> None:
        self.asked.append("open")

    async def close(self) -> None:
        self.asked.append("close")

    async def repeat(self, sequence: Sequence[int], limit_s: float) -> Batch:
        self.asked.append((list(sequence), limit_s))
        once = self.size_bytes / 1e6
        return Batch(seconds=(100 * once, 100 * once, once, 3 * once), reason=self.reason)


def test_the_buffer_is_sized_by_the_second_run_of_two_orders_and_the_time_goes_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter([0.0, 7.0])
    monkeypatch.setattr(run_module, "WireRunner", Small)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    Small.made = []
    runner = SimpleNamespace(members=["m"], runs=["a", "b", "c"], ports=(5, 6))
    verify = VerifyOptions(size_bytes=512_000_000, fits_time=True)
    sized = asyncio.run(_sized(runner, verify, surveyed=0))  # type: ignore[arg-type]
    (small,) = Small.made
    assert (small.members, small.runs, small.size_bytes, small.ports) == (
        ["m"],
        ["a", "b"],
        1_000_000,
        (5, 6),
    )
    assert small.asked == ["open", ([1, 0, 1, 0], 60.0), "close"]
    # Two seconds a megabyte: 14 runs in four fifths of the 52 s that four of them leave.
    assert sized.size_bytes == _rounded(1e6 * 0.8 * 52 / 14 / 2)
    assert (sized.comparison.time_s, sized.comparison.wanted_pairs) == (53.0, 6)
    monkeypatch.setattr(Small, "reason", "h1: gone")
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    with pytest.raises(StoppedRunError, match="h1: gone"):
        asyncio.run(_sized(runner, verify, surveyed=0))  # type: ignore[arg-type]
    assert Small.made[-1].asked[-1] == "close"


def test_options_that_cannot_be_are_refused() -> None:
    assert VerifyOptions(size_bytes=MAX_BYTES, channels=64)
    for size_bytes, channels in ((0, 1), (MAX_BYTES + 1, 1), (1, 0), (1, 65)):
        with pytest.raises(InputError):
            VerifyOptions(size_bytes=size_bytes, channels=channels)
    assert ComparisonOptions(time_s=1.0) and ComparisonOptions(time_s=86400.0)
    for time_s in (0.99, 86401.0):
        with pytest.raises(InputError):
            replace(ComparisonOptions(), time_s=time_s)


def test_libraries_are_timed_there_and_back_and_ranks_have_to_be_where_they_were_for() -> None:
    drawn = interleaved(3)
    assert [next(drawn) for _ in range(9)] == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    session = SimpleNamespace(time_all_reduce=lambda order, size, timeout: order[0] + size + timeout)
    timings = list(time_orders(session, [[10, 0], [20, 0]], size_bytes=4, trials=2, timeout_s=0.5))
    assert [(one.order, one.duration_s) for one in timings] == [(0, 14.5), (1, 24.5), (1, 24.5), (0, 14.5)]
    assert [warm_bytes(size) for size in (4, 1 << 20, 1 << 24, (1 << 26) + 4)] == [
        4,
        1 << 20,
        1 << 20,
        1 << 22,
    ]
    check_ranks(["a.x", "alias"], ["A", "b"])
    for ranks in (["b", "a"], ["a"], ["a", 1], "ab"):
        with pytest.raises(LibraryError):
            check_ranks(ranks, ["a", "b"])
