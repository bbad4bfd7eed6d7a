"""ARI, AMI and purity of two partitions, against scikit-learn and against what they promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from netprobe.cluster.evaluate.agreement import (
    adjusted_mutual_information,
    adjusted_rand_index,
    contingency,
    purity,
)
from netprobe.core.errors import InputError

Labels = list[int]


@st.composite
def two_partitions(draw: st.DrawFn) -> tuple[Labels, Labels]:
    hosts = draw(st.integers(2, 40))
    most = draw(st.integers(1, hosts))
    sides = [draw(st.lists(st.integers(0, most), min_size=hosts, max_size=hosts)) for _ in range(2)]
    return sides[0], sides[1]


@given(two_partitions())
def test_both_indices_are_those_of_scikit_learn(sides: tuple[Labels, Labels]) -> None:
    truth, found = sides
    assert adjusted_rand_index(truth, found) == pytest.approx(adjusted_rand_score(truth, found), abs=1e-9)
    expected = adjusted_mutual_info_score(truth, found)
    assert adjusted_mutual_information(truth, found) == pytest.approx(expected, abs=1e-7)


@given(two_partitions(), st.randoms())
def test_neither_names_nor_the_order_of_the_hosts_matter(
    sides: tuple[Labels, Labels], random: object
) -> None:
    truth, found = sides
    order = list(range(len(truth)))
    random.shuffle(order)  # type: ignore[attr-defined]
    renamed = [f"g{label}" for label in found]
    for score in (adjusted_rand_index, adjusted_mutual_information, purity):
        again = score([truth[i] for i in order], [renamed[i] for i in order])
        assert again == pytest.approx(score(truth, found), abs=1e-12)
    assert adjusted_rand_index(truth, truth) == adjusted_mutual_information(truth, truth) == 1.0
    assert purity(truth, truth) == purity(truth, list(range(len(truth)))) == 1.0


def test_purity_is_the_share_in_the_majority() -> None:
    assert purity("aabbb", [0, 0, 0, 1, 1]) == pytest.approx(4 / 5)
    assert purity("abcd", [0, 0, 0, 0]) == pytest.approx(1 / 4)
    assert contingency("aab", [1, 0, 0]).tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(("truth", "found"), [([], []), ([1, 2], [1])])
def test_partitions_of_unlike_hosts_are_refused(truth: Labels, found: Labels) -> None:
    for score in (adjusted_rand_index, adjusted_mutual_information, purity):
        with pytest.raises(InputError, match="labels"):
            score(truth, found)
