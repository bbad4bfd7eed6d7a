"""Parts of planning against their values: who is chosen and why, sizes and choices, kicks, rings that are kept."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.errors import InputError
from netprobe.plan import Links
from netprobe.plan.auto.candidates import GIVEN, Candidate, coarse, distinct
from netprobe.plan.auto.choice import LEAST_BYTES, MOST_BYTES, Chooser
from netprobe.plan.auto.known import known_network
from netprobe.plan.auto.predicting import Interval, prediction_of
from netprobe.plan.costs import cost_model, latency_only
from netprobe.plan.order.rings import LargestHopRing
from netprobe.plan.schedule.document import features_of
from netprobe.plan.schedule.program import _needed_waits
from netprobe.plan.schedule.schedule import APPLY
from netprobe.plan.search import ring as ring_search
from netprobe.plan.search.anneal import drawn_moves
from netprobe.plan.simulate.network import Network
from tests.maps import made_capacity, made_map

SIZE = 10**6
ORDERS = list(itertools.permutations("abcd"))


def candidate(name: str, order: str = GIVEN, at: int = 0, **fields: Any) -> Candidate:
    return Candidate(algorithm=name, order=ORDERS[at], order_name=order, **fields)


BASE = candidate("chunked-ring")
OWN = candidate("bcube")
NEW = [candidate("flat", f"order {number}", number + 1) for number in range(8)]


class Known:
    """A network on which times are given, not simulated."""

    def __init__(self, decides: bool = True) -> None:
        self.network, self.all = SimpleNamespace(certain=False, hosts=("a", "b")), decides

    def decides(self, size_bytes: int) -> bool:
        return self.all or size_bytes <= 1448


class Told(Chooser):
    """Times in seconds (or functions of the size), each uncertain by ``spread``, a factor both ways."""

    times: dict[Candidate, Any]
    spread: dict[Candidate, float]

    def time_s(self, candidate: Candidate, size_bytes: int) -> float:
        time_s = self.times[candidate]
        return float(time_s(size_bytes) if callable(time_s) else time_s)

    def bound_s(self, candidate: Candidate, size_bytes: int) -> float:
        return 0.9 * self.time_s(candidate, size_bytes)

    def interval(self, candidate: Candidate, size_bytes: int) -> Interval:
        time_s, spread = self.time_s(candidate, size_bytes), self.spread.get(candidate, 1.0)
        return Interval(time_s=time_s, low_s=time_s / spread, high_s=time_s * spread)


def told(
    times: dict[Candidate, Any], spread: dict[Candidate, float] | None = None, *, decides: bool = True
) -> Told:
    made = Told(known=Known(decides), candidates=list(times))  # type: ignore[arg-type]
    made.times, made.spread = times, spread or {}
    return made


def decided(
    times: dict[Candidate, Any], spread: dict[Candidate, float] | None = None
) -> tuple[Candidate, str, Candidate]:
    found = told(times, spread).decide(SIZE)
    assert found.baseline == BASE and found.size_bytes == SIZE
    return found.candidate, found.reason, found.likely


def test_the_faster_of_the_baselines_is_what_is_run_otherwise() -> None:
    other = candidate("halving-doubling")
    assert told({BASE: 2.0, other: 1.0}).decide(SIZE).baseline == other
    more = candidate("halving-doubling", channels=2)
    assert told({BASE: 2.0, more: 1.0}).decide(SIZE).baseline == BASE
    for name, order in (("flat", GIVEN), ("chunked-ring", "found")):
        with pytest.raises(InputError):
            told({candidate(name, order): 1.0})


@pytest.mark.parametrize(
    ("time_s", "spread", "chosen", "reason"),
    [
        (0.9, 1.0, OWN, "faster"), (0.985, 1.0, BASE, "close"), (0.979, 1.0, OWN, "faster"),
        (0.9, 1.2, BASE, "cannot_tell"), (1.1, 1.0, BASE, "close"),
    ],
)  # fmt: skip
def test_what_wins_is_surely_faster_by_a_fiftieth(
    time_s: float, spread: float, chosen: Candidate, reason: str
) -> None:
    assert decided({BASE: 1.0, OWN: time_s}, {OWN: spread})[:2] == (chosen, reason)


def test_an_uncertain_baseline_is_kept_for_want_of_knowledge() -> None:
    assert decided({BASE: 1.0, OWN: 1.05}, {BASE: 1.1}) == (BASE, "cannot_tell", BASE)
    assert decided({BASE: 1.0, OWN: 0.5}, {OWN: 3.0}) == (BASE, "cannot_tell", OWN)


def test_a_new_order_has_to_be_surely_faster_than_the_original_one_or_expected_to_be() -> None:
    times = {BASE: 1.0, OWN: 0.6, NEW[0]: 0.5}
    assert decided(times)[:2] == (NEW[0], "faster")
    # One that may be slower is taken only where it is expected to be faster by over a twentieth.
    assert decided(times | {OWN: 0.52}, {NEW[0]: 1.3})[:2] == (OWN, "faster")
    assert decided(times | {OWN: 0.53}, {NEW[0]: 1.3})[:2] == (NEW[0], "faster")
    assert decided(times | {NEW[0]: 0.595})[0] == OWN  # as good, within a fiftieth
    # The original order is looked at though six new ones are faster by the figures.
    many = {BASE: 1.0, OWN: 0.7} | {one: 0.5 + 0.01 * at for at, one in enumerate(NEW)}
    assert decided(many, dict.fromkeys(NEW, 3.0)) == (OWN, "faster", NEW[0])
    # Of them the sixth is looked at too, and the seventh is not.
    for at, chosen in ((5, NEW[5]), (6, BASE)):
        vague = {one: 3.0 for one in (*NEW, OWN) if one is not NEW[at]}
        assert decided(many, vague)[0] == chosen


def test_the_table_begins_with_the_choice_and_bounds_what_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, rough = candidate("nccl-tree"), candidate("2lha")
    made = told(
        {BASE: 1.0, OWN: 0.8, NEW[0]: 0.7, NEW[1]: 0.75, rough: 8.0, slow: 9.0}, {NEW[0]: 3.0, NEW[1]: 3.0}
    )
    monkeypatch.setattr(made, "_prediction", lambda one, size: SimpleNamespace(time_s=made.time_s(one, size)))
    made._runs[NEW[1], SIZE] = SimpleNamespace(time_s=0.75)  # type: ignore[assignment]
    made._rough[rough, SIZE] = 8.1
    decision = made.decide(SIZE)
    assert (decision.candidate, decision.likely) == (OWN, NEW[0])
    rows = made.table(decision)
    assert [row.candidate for row in rows] == [OWN, NEW[0], NEW[1], BASE, rough, slow]
    # Predicted are those that the choice is about. Others have a run without an interval, a rough time, or a bound.
    assert [row.prediction is not None for row in rows] == [True, True, False, True, False, False]
    assert [row.time_s for row in rows[2:]] == [0.75, None, 8.1, None]
    assert rows[5].at_least_s == pytest.approx(8.1)


def test_the_size_at_which_the_choice_changes_is_found_within_a_tenth() -> None:
    """BASE takes 1 ms and 10 ns a byte, OWN 5 ns a byte and 2 ms: equal at 200 kB."""
    made = told({BASE: lambda size: 1e-3 + 1e-8 * size, OWN: lambda size: 2e-3 + 5e-9 * size})
    for size in (10_000, SIZE, 10**8):
        ranges = made.ranges(made.decide(size))
        assert [one.candidate for one in ranges] == [BASE, OWN]
        assert (ranges[0].first_bytes, ranges[1].last_bytes) == (LEAST_BYTES, MOST_BYTES)
        assert ranges[0].last_bytes + 1 == ranges[1].first_bytes
        # A choice holds until another is a twentieth better: from 160 kB upwards, and down to it from above.
        assert 150_000 < ranges[1].first_bytes < 280_000
    alone = told({BASE: 1.0, OWN: 0.5}, decides=False)
    small, large = alone.ranges(alone.decide(SIZE))
    assert (small.first_bytes, small.last_bytes, small.candidate) == (LEAST_BYTES, 1448, OWN)
    assert (large.first_bytes, large.last_bytes, large.candidate, large.reason) == (
        1449,
        MOST_BYTES,
        None,
        "cannot_tell",
    )


def test_a_choice_that_nobody_can_make_is_a_range_of_its_own() -> None:
    made = told({BASE: 1.0, OWN: lambda size: 0.5 if size > 10**5 else 2.0}, {OWN: 3.0})
    ranges = made.ranges(made.decide(SIZE))
    assert [(one.candidate, one.reason) for one in ranges] == [(BASE, "close"), (None, "cannot_tell")]


def test_schedules_are_counted_once_and_small_pieces_not_at_all() -> None:
    one, same, other = (candidate("2lha", chunk_bytes=size) for size in (1000, 1001, 500))
    tiny = candidate("2lha", chunk_bytes=1)
    assert one.pieces(100_000) == 100 and other.pieces(100_000) == 200
    assert distinct([one, other, one, tiny], 100_000) == [one, other]
    assert distinct([one, tiny], 100_000, keep=(tiny,)) == [tiny, one]
    assert same.pieces(100_000) == 100 and distinct([one, same], 100_000) == [one]
    assert coarse([one, other], 100_000) == [one]  # at most 128 pieces
    assert coarse([other, tiny], 100_000) == [other]  # or the fewest there are


class Kicked:
    """A search that says how many kicks it was asked for, each a tick of its clock."""

    def __init__(self, most: int, tick: float = 0.001) -> None:
        self.asked: list[int] = []
        self.most, self.tick, self.now = most, tick, 0.0

    def __call__(self, _ring: Any, wanted: int, _enough: int) -> int:
        self.asked.append(wanted)
        self.now += wanted * self.tick
        return min(wanted, self.most - sum(self.asked[:-1]))


@pytest.mark.parametrize(
    ("kicks", "deadline", "most", "asked"),
    [
        (20, math.inf, 99, [20]), (20, 9.0, 99, [1, 2, 4, 8, 5]), (20, 9.0, 5, [1, 2, 4]), (20, 0.0, 99, []),
        (1, 9.0, 99, [1]), (1000, 0.2, 9999, [1, 2, 4, 8, 16, 32, 64, 64, 64]),
    ],
)  # fmt: skip
def test_kicks_double_while_they_are_quick_and_end_with_the_time(
    monkeypatch: pytest.MonkeyPatch, kicks: int, deadline: float, most: int, asked: list[int]
) -> None:
    search = Kicked(most)
    monkeypatch.setattr(ring_search, "time", SimpleNamespace(monotonic=lambda: search.now))
    fleet = SimpleNamespace(work=SimpleNamespace(deadline=deadline))
    made = ring_search._Fleet._kick(fleet, search, None, kicks, -1)  # type: ignore[arg-type]
    assert search.asked == asked and made == min(sum(asked), most)


def test_an_original_ring_is_kept_only_where_its_sum_is_near_too() -> None:
    cost = np.array([[0.0, 1.0, 5.0, 1.0], [1.0, 0.0, 1.0, 5.0], [5.0, 1.0, 0.0, 1.0], [1.0, 5.0, 1.0, 0.0]])
    near, far = SimpleNamespace(order=[0, 1, 2, 3]), SimpleNamespace(order=[0, 2, 1, 3])
    strategy = LargestHopRing(cost_model("ring"))
    keeps = strategy.may_keep_original
    assert keeps([near, far], latency_only(cost)) and not keeps([far, near], latency_only(cost))  # type: ignore[list-item]
    cost[0, 1] = cost[1, 0] = 1.05
    other = SimpleNamespace(order=[3, 2, 1, 0])
    assert keeps([near, other], latency_only(cost))  # type: ignore[list-item]
    assert strategy.with_root([3, 1, 0, 2], 0) == [0, 2, 3, 1]
    worst = strategy._worst(
        np.where(cost == 5.0, [[0, 0, 5, 0], [0, 0, 0, 5], [6, 0, 0, 0], [0, 5, 0, 0]], 1.0),
        [0, 1, 2, 3],
        None,  # type: ignore[arg-type]
    )
    assert worst == [0, 1, 3, 2]  # the hop of 2 to 0 is in it, and rank 0 is the original one's


def test_nothing_waits_in_an_empty_program() -> None:
    none = np.zeros(0, np.int64)
    assert _needed_waits(none, none, none, none, 4).shape == (0, 2)


@pytest.mark.parametrize("size", [3, 4, 9, 32])
def test_moves_leave_rank_0_alone_and_fit(size: int) -> None:
    moves = drawn_moves(np.random.default_rng(1), size, 2000)
    assert moves.shape == (2000, 4)
    exchanges = moves[moves[:, 0] == 0]
    kind, one, other, length = exchanges.T
    assert (
        len(exchanges) > 200
        and (one >= 1).all()
        and (other >= one + length).all()
        and (other + length <= size).all()
    )
    if size == 32:
        assert set(length.tolist()) >= {1, 2, 4}
    first, last, to = moves[moves[:, 0] != 0][:, 1:].T
    assert ((first >= 1) & (last > first) & (last <= size)).all() and (to >= 0).all()
    assert {tuple(pair) for pair in exchanges[:, 1:3].tolist()} >= {(1, size - 1)}
    assert not kind.any()


def test_intervals_touch_or_do_not() -> None:
    one = Interval(time_s=1.0, low_s=1.0, high_s=1.5)
    assert one.is_narrow(0.5) and not one.is_narrow(0.49)
    above = Interval(time_s=2.0, low_s=1.5, high_s=2.0)
    assert not one.surely_below(above) and one.surely_below(Interval(time_s=2.0, low_s=1.51, high_s=2.0))
    assert not one.surely_below(
        Interval(time_s=2.0, low_s=1.51, high_s=2.0), 0.02
    ) and not above.surely_below(one)
    open_ = Interval(time_s=1.0, low_s=1.0, high_s=None)
    assert not open_.is_narrow(9.0) and not open_.surely_below(above)


def test_a_prediction_has_an_interval_where_capacities_have() -> None:
    map_ = made_map([2, 2])
    order = [host.name for host in map_.hosts]
    ring = Candidate(algorithm="chunked-ring", order=tuple(order))
    exact = prediction_of(known_network(map_, order, made_capacity(map_)), ring, 10**8)
    # 2 (N - 1) / N of 100 MB at 100 MB/s.
    assert exact.time_s == pytest.approx(1.5, rel=0.01) and (exact.low_s, exact.high_s) == (None, None)


@pytest.mark.parametrize("wrong", ["alpha_s", "stream", "passed", "capacity", "low", "high"])
def test_a_network_whose_arrays_do_not_fit_is_refused(wrong: str) -> None:
    fields: dict[str, Any] = {
        "alpha_s": np.zeros((2, 2)), "stream": np.ones((2, 2)), "passed": np.zeros((2, 2, 1), dtype=np.intp),
        "capacity": np.ones(3), "low": np.ones(3), "high": np.ones(3),
    }  # fmt: skip
    names: dict[str, Any] = {"hosts": ("a", "b"), "resources": ("x", "y", "z")}
    assert Network(**names, **fields).index("b") == 1
    with pytest.raises(InputError):
        Network(**names, **fields | {wrong: fields[wrong][:1]})
    if wrong in ("capacity", "stream", "low"):
        # A lower end of 0 is none.
        for rate in (0, -1) if wrong != "low" else (-1,):
            with pytest.raises(InputError):
                Network(**names, **fields | {wrong: rate * fields[wrong]})
    for latency in (np.inf, -1.0):
        with pytest.raises(InputError):
            Network(**names, **fields | {"alpha_s": np.full((2, 2), latency)})


def test_links_without_direction_are_as_fast_as_the_faster_one() -> None:
    there = np.array([[0.0, 1.0], [3.0, 0.0]])
    same = Links(alpha_s=there, beta_s_per_byte=2 * there, size_bytes=7).without_direction()
    assert np.array_equal(same.alpha_s, [[0, 1], [1, 0]]) and same.size_bytes == 7
    assert same.beta_s_per_byte is not None and np.array_equal(same.beta_s_per_byte, [[0, 2], [2, 0]])
    assert Links(alpha_s=there).without_direction().beta_s_per_byte is None


def test_a_reader_needs_a_feature_that_any_part_has() -> None:
    def part(op: int, paths: Any, weight: Any = None) -> Any:
        return SimpleNamespace(op=np.array([op]), paths=paths, weight=weight)

    def features(parts: list[Any], participants: int = 2) -> set[str]:
        contract = SimpleNamespace(applied=False, participants=range(participants))
        return features_of(SimpleNamespace(templates=parts, blocks=parts, contract=contract, ranks=2))  # type: ignore[arg-type]

    plain = part(-1, None)
    assert features([plain]) == set() and features([plain], 1) == {"relays"}
    assert features([plain, part(-1, [])]) == {"paths"} and features([plain, part(APPLY, None)]) == {"apply"}
    assert features([plain, part(-1, None, 2)]) == {"rates"}
