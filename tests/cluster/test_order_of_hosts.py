"""The same hosts listed in another order: the same groups, verdict and evidence, of every method."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from netprobe.cluster import compare_methods, find_groups, judge_locality, natural_groups
from netprobe.cluster.distances.canonical import canonical_order
from netprobe.cluster.records import Partition, numbered_by_first_member
from netprobe.core.errors import InputError
from tests.cluster.fleets import rack_rtt
from tests.cluster.test_same_results import fleet
from tests.properties import examples

Matrix = NDArray[np.float64]


def turned(matrix: Matrix, order: NDArray[np.intp]) -> Matrix:
    """The rows and columns in another order."""
    return matrix[np.ix_(order, order)]


@st.composite
def readings(draw: st.DrawFn) -> Matrix:
    """Of few different values, some of them missing, often the same in both directions: hosts are often alike."""
    n = draw(st.integers(1, 9))
    values = st.sampled_from([1.0, 2.0, 3.0, np.nan][: draw(st.integers(1, 4))])
    matrix = draw(arrays(np.float64, (n, n), elements=values))
    return np.fmin(matrix, matrix.T) if draw(st.booleans()) else matrix


@given(readings(), st.data())
def test_hosts_come_in_one_order_however_they_were_listed(matrix: Matrix, data: st.DataObject) -> None:
    n = len(matrix)
    other = data.draw(arrays(np.float64, (n, n), elements=st.sampled_from([1.0, 2.0])))
    order = np.array(data.draw(st.permutations(range(n))))
    for one in (matrix, other):
        np.fill_diagonal(one, 0.0)
    first, again = (
        canonical_order(matrix, other),
        canonical_order(turned(matrix, order), turned(other, order)),
    )
    assert sorted(first.tolist()) == list(range(n))
    for one in (matrix, other):
        assert np.array_equal(turned(one, first), turned(turned(one, order), again), equal_nan=True)
    assert np.array_equal(canonical_order(matrix * 8.0, other), first)


def test_hosts_that_can_be_exchanged_keep_the_given_order() -> None:
    assert canonical_order(np.ones((6, 6))).tolist() == list(range(6))
    rack = np.array([0, 1, 0, 1])
    near = np.where(rack[:, None] == rack, 1.0, 2.0)
    assert canonical_order(near).tolist() == [0, 2, 1, 3]
    # Only the second matrix, or only a direction, tells two hosts from one another.
    second = np.ones((3, 3))
    second[1, 2] = 0.5
    assert canonical_order(np.ones((3, 3)), second).tolist() == [1, 2, 0]
    with pytest.raises(InputError):
        canonical_order(np.ones((2, 3)))


@examples(2)
@given(
    st.sampled_from([("racks", 20), ("rows", 30), ("plane", 18), ("loose", 20), ("flat", 15)]),
    st.sampled_from([{}, {"k": 3}, {"method": "sqrt"}, {"method": "auto"}]),
    st.integers(0, 10**6),
)
def test_every_method_gives_the_same_groups_in_any_order(
    kind: tuple[str, int], options: dict[str, object], seed: int
) -> None:
    denoised, raw = fleet(*kind)
    order = np.random.default_rng(seed).permutation(len(raw))
    found, verdict = find_groups(denoised, raw, seed=seed, **options)  # type: ignore[arg-type]
    there = turned(denoised, order), turned(raw, order)
    again, same = find_groups(*there, seed=seed, **options)  # type: ignore[arg-type]
    assert np.array_equal(again.labels, numbered_by_first_member(found.labels[order]))
    assert verdict == same
    assert json.dumps(dict(again.put_back(order).evidence)) == json.dumps(dict(found.evidence))
    both = compare_methods(denoised, raw, found, seed=seed), compare_methods(*there, again, seed=seed)
    assert both[0] == both[1]
    natural, same_natural = natural_groups(raw, seed=seed), natural_groups(there[1], seed=seed)
    assert np.array_equal(same_natural.labels, numbered_by_first_member(natural.labels[order]))
    assert judge_locality(raw, found.labels, seed=seed) == judge_locality(there[1], again.labels, seed=seed)


def test_what_is_said_of_hosts_and_of_groups_of_groups_goes_back_to_their_places() -> None:
    came = np.array([3, 0, 4, 2, 1])
    partition = Partition(
        labels=np.array([0, 1, 2, 0, 3]),
        method="natural",
        evidence={
            "far_hosts": [1],  # the second to come, which is host 0
            "excess": [0.3, 0.0, 0.4, 0.2, 0.1],
            "levels": [{"k": 3, "of_groups": [0, 1, 2]}, {"k": 2, "of_groups": [0, 1, 0]}],
        },
    )
    back = partition.put_back(came)
    assert back.labels.tolist() == [0, 1, 2, 2, 3]
    assert back.evidence["far_hosts"] == [0]
    assert back.evidence["excess"] == [0.0, 0.1, 0.2, 0.3, 0.4]
    # Of the near hosts 1, 2, 3, 4 the groups are 2, 0, 0, 1 as they came: in the new count 0, 1, 1, 2.
    assert back.evidence["levels"] == [{"k": 3, "of_groups": [0, 1, 2]}, {"k": 2, "of_groups": [0, 0, 1]}]


def test_a_far_host_has_a_place_in_what_hosts_add_to_their_distances() -> None:
    rtt, rack = rack_rtt((6, 6, 4), 5)
    rtt[3, :] += 200e-6
    rtt[:, 3] += 200e-6
    rtt[9, :] = rtt[:, 9] = 5e-3
    found, _ = find_groups(rtt, rtt, seed=0)
    assert found.evidence["far_hosts"] == [9]
    excess = found.evidence["excess"]
    assert isinstance(excess, list) and len(excess) == len(rack)
    assert int(np.argmax(excess)) == 3 and excess[9] == 0.0
