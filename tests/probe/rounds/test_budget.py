"""Budgets: what they read, and a chooser that stays within one, driven by made-up fleets."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.cluster import find_groups
from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.embed.denoise import denoise
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.budget import Budget, Budgeted, nested_components, parse_budget, split_of
from netprobe.probe.rounds.chooser import Results
from netprobe.probe.rounds.circle import Link
from tests.documents import rack_labels, rack_rtt
from tests.probe.conftest import visit
from tests.properties import examples


def drive(
    rtt_s: FloatMatrix,
    budget: Budget,
    *,
    seed: int = 0,
    visits: list[VisitResult] | None = None,
    round_s: float = 0.1,
) -> tuple[list[list[Link]], list[VisitResult]]:
    """All rounds of a chooser on a fleet of these RTTs, and the visits."""
    chooser, seen = Budgeted(budget, seed=seed), list(visits or [])
    rounds: list[list[Link]] = []
    alive = frozenset(range(len(rtt_s)))
    while True:
        results = Results(hosts=len(rtt_s), alive=alive, visits=seen, elapsed_s=round_s * len(rounds))
        links = chooser.next_round(results)
        if links is None:
            return rounds, seen
        rounds.append(list(links))
        seen += [visit(link.src, link.dst, [float(rtt_s[link.src, link.dst])]) for link in links]


@pytest.mark.slow
@examples(40)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.floats(0.05, 1.0), st.integers(0, 99))
def test_a_budget_is_kept_each_pair_is_visited_from_both_ends_and_no_host_is_in_two_pairs(
    racks: list[int], share: float, seed: int
) -> None:
    hosts = sum(racks)
    every = hosts * (hosts - 1) // 2
    pairs = max(hosts - 1, math.ceil(share * every))
    rounds, _ = drive(rack_rtt(racks, seed=seed), Budget(pairs=pairs), seed=seed)
    links = [link for links in rounds for link in links]
    assert len(set(links)) == len(links)
    assert {Link(link.dst, link.src) for link in links} == set(links)
    assert len(links) == 2 * min(pairs, every)
    for one in rounds:
        assert max(Counter(end for link in one for end in (link.src, link.dst)).values()) == 1
    place = {link: i for i, one in enumerate(rounds) for link in one}
    assert all(abs(place[link] - place[Link(link.dst, link.src)]) >= len(rounds) // 2 - 1 for link in links)


def test_the_same_seed_and_readings_give_the_same_pairs() -> None:
    rtt = rack_rtt([5, 4, 3], seed=1)
    assert drive(rtt, Budget(pairs=30), seed=4)[0] == drive(rtt, Budget(pairs=30), seed=4)[0]
    assert drive(rtt, Budget(pairs=30), seed=4)[0] != drive(rtt, Budget(pairs=30), seed=5)[0]


@pytest.mark.slow
@pytest.mark.parametrize("racks", [[40, 30, 20, 16, 12, 10], [16] * 8, [100, 60, 40, 24, 16, 10, 6]])
def test_a_tenth_of_the_pairs_shows_the_racks(racks: list[int]) -> None:
    rtt = rack_rtt(racks, seed=sum(racks))
    rounds, _ = drive(rtt, Budget(share=0.1), seed=2)
    known = np.full_like(rtt, np.nan)
    for link in (link for links in rounds for link in links):
        known[link.src, link.dst] = rtt[link.src, link.dst]
    grouping, verdict = find_groups(denoise(known), known, seed=0)
    assert adjusted_rand_index(rack_labels(racks), grouping.labels.tolist()) == pytest.approx(1.0)
    assert verdict.locality == "found"


def read_in_rows(
    rack: NDArray[np.int64], row: NDArray[np.int64], levels_s: tuple[float, float, float], *, share: float
) -> NDArray[np.float64]:
    """What a budget reads of a fleet whose hosts are so far apart in a rack, in a row and across; NaN elsewhere."""
    same = [np.equal.outer(label, label) for label in (rack, row)]
    rtt = np.select(same, levels_s[:2], levels_s[2])
    rtt *= np.exp(np.random.default_rng(4).normal(0.0, 0.05, rtt.shape))
    np.fill_diagonal(rtt, 0.0)
    rounds, _ = drive(rtt, Budget(share=share), seed=2)
    known = np.full_like(rtt, np.nan)
    for link in (link for links in rounds for link in links):
        known[link.src, link.dst] = rtt[link.src, link.dst]
    return known


@pytest.mark.slow
@pytest.mark.parametrize("racks", [True, False])
def test_a_tenth_of_the_pairs_shows_racks_inside_rows_and_none_where_there_are_none(racks: bool) -> None:
    place = np.random.default_rng(3).permutation(96)
    rack, row = place // 16, place // 48
    known = read_in_rows(rack, row, (50e-6 if racks else 250e-6, 250e-6, 1e-3), share=0.1)
    grouping, _ = find_groups(denoise(known), known, seed=0)
    assert adjusted_rand_index((rack if racks else row).tolist(), grouping.labels.tolist()) == 1.0


def test_racks_inside_rows_are_found_too() -> None:
    rows, racks, size = 3, 2, 8
    hosts = rows * racks * size
    place = np.random.default_rng(3).permutation(hosts)
    rack, row = place // size, place // (size * racks)
    known = read_in_rows(rack, row, (100e-6, 200e-6, 500e-6), share=0.25)
    found = nested_components(known)
    assert [adjusted_rand_index(a.tolist(), b.tolist()) for a, b in zip(found, (row, rack), strict=True)] == [
        1,
        1,
    ]


def test_a_budget_of_time_ends_the_first_pass_before_its_half_and_all_at_its_end() -> None:
    rounds, _ = drive(rack_rtt([8, 8, 8], seed=3), Budget(seconds=4.0), round_s=0.1)
    assert len(rounds) <= 41
    firsts = {frozenset((link.src, link.dst)) for links in rounds[:19] for link in links}
    assert {frozenset((link.src, link.dst)) for links in rounds for link in links} == firsts


def test_a_scan_that_goes_on_counts_what_is_there() -> None:
    rtt = rack_rtt([6, 6], seed=1)
    _rounds, seen = drive(rtt, Budget(pairs=30))
    early = seen[:25]
    again, _ = drive(rtt, Budget(pairs=30), visits=early)
    links = [Link(v.src, v.dst) for v in early] + [link for links in again for link in links]
    assert len(set(links)) == len(links) == 60
    assert {Link(link.dst, link.src) for link in links} == set(links)


def test_components_are_hosts_joined_by_near_readings() -> None:
    rtt = np.full((5, 5), np.nan)
    for a, b, value in ((0, 1, 1e-4), (1, 2, 1.1e-4), (3, 4, 1e-4), (2, 3, 3e-4), (0, 4, 3.1e-4)):
        rtt[a, b] = rtt[b, a] = value
    assert [labels.tolist() for labels in nested_components(rtt)] == [[0, 0, 0, 1, 1]]
    assert split_of(np.log([1e-4, 1.01e-4, 1.02e-4, 1.03e-4])) is None


@pytest.mark.parametrize(
    ("pairs", "time", "said"),
    [
        ("0%", None, "a share above 0%"),
        ("101%", None, "a share above 0%"),
        ("x%", None, "a share above 0%"),
        ("2.5", None, "neither a number of pairs nor a share"),
        ("-3", None, "neither a number of pairs nor a share"),
        ("", None, "neither a number of pairs nor a share"),
        (None, "0s", "1s to 24h"),
        (None, "1d", "1s to 24h"),
        (None, "", "1s to 24h"),
    ],
)
def test_budgets_that_are_none_are_refused(pairs: str | None, time: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_budget(pairs, time)


def test_budgets_are_read() -> None:
    assert parse_budget(None, None) is None
    assert parse_budget("5%", "2m") == Budget(share=0.05, seconds=120.0)
    assert parse_budget("20000", "60s") == Budget(pairs=20000, seconds=60.0)
    assert Budget(share=0.1).pairs_of(256) == 3264
    with pytest.raises(InputError, match="cannot tie 64 hosts together, at least 63"):
        Budget(pairs=62).pairs_of(64)
    with pytest.raises(InputError, match=r"at least 15 are needed, which is --pairs 12\.5%$"):
        Budget(share=0.1).pairs_of(16)
    for hosts in range(3, 400):
        with pytest.raises(InputError, match="which is --pairs") as caught:
            Budget(pairs=1).pairs_of(hosts)
        named = parse_budget(str(caught.value).rpartition(" ")[2], None)
        assert named is not None and hosts - 1 <= named.pairs_of(hosts)


@given(st.text(max_size=10), st.text(max_size=10))
def test_any_text_is_a_budget_or_one_clear_error(pairs: str, time: str) -> None:
    try:
        budget = parse_budget(pairs, time)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert budget is not None and budget.seconds is not None and budget.seconds >= 1
