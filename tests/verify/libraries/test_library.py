"""What all libraries share: orders in turn, answers that are checked, and ranks that run where they should."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.pipeline.verifying.libraries import library_named
from netprobe.probe.launchers.via import parse_via
from netprobe.verify.libraries.library import (
    check_ranks,
    check_trial,
    interleaved,
    seconds_in,
    time_orders,
    warm_bytes,
)
from netprobe.verify.libraries.process_group import LibraryError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


class Clockwork:
    """A library whose time is the place of host 0."""

    version = "clockwork"

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float) -> float:
        return 1.0 + order.index(0)


def test_whatever_drifts_meets_all_orders_alike() -> None:
    assert list(islice(interleaved(3), 9)) == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    found = list(time_orders(Clockwork(), [(0, 1), (1, 0)], size_bytes=4, trials=2))
    assert [(one.order, one.duration_s) for one in found] == [(0, 1.0), (1, 2.0), (1, 2.0), (0, 1.0)]


@given(JSON, JSON)
def test_any_answer_is_a_time_or_an_error(seconds: Any, correct: Any) -> None:
    try:
        found = seconds_in({"seconds": seconds, "correct": correct}, "Gloo on a")
    except LibraryError as error:
        assert "Gloo on a" in str(error) and str(error).isprintable()
    else:
        assert correct is True and 0 < found < 1e6


@given(JSON | st.lists(st.text(max_size=5), max_size=4))
def test_any_list_of_ranks_fits_or_is_an_error(reported: Any) -> None:
    try:
        check_ranks(reported, ["a", "b"])
    except LibraryError as error:
        assert str(error).isprintable()
    else:
        assert len(reported) == 2 and [reported[0] != "b", reported[1] != "a"] == [True, True]


def test_ranks_on_other_hosts_are_found_and_aliases_prove_nothing() -> None:
    check_ranks(["node1.example", "NODE2"], ["node1", "node2.example"])
    check_ranks(["ip-10-0-0-1", "ip-10-0-0-2"], ["10.0.0.1", "10.0.0.2"])
    with pytest.raises(LibraryError, match="rank 0 runs on b, and was for a"):
        check_ranks(["b", "a"], ["a", "b"])
    with pytest.raises(LibraryError, match="rank 1 runs on a, and was for b"):
        check_ranks(["a", "a"], ["a", "b"])
    with pytest.raises(LibraryError, match="1 ranks run"):
        check_ranks(["a"], ["a", "b"])


@pytest.mark.parametrize("order", [(0, 0), (0,), (0, 2), (0, 1, 2)])
def test_an_order_of_other_hosts_is_refused(order: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="each of the 2 hosts once"):
        check_trial(order, 2, 4)


@pytest.mark.parametrize("size", [0, -4, 5, (1 << 32) + 4])
def test_a_size_that_is_no_number_of_floats_is_refused(size: int) -> None:
    with pytest.raises(InputError, match="floats"):
        check_trial((0, 1), 2, size)


@given(st.integers(1, 1 << 30).map(lambda n: 4 * n))
def test_the_warm_up_is_no_larger_and_of_whole_floats(size: int) -> None:
    assert 4 <= warm_bytes(size) <= size and warm_bytes(size) % 4 == 0


def test_libraries_are_known_by_name() -> None:
    local = parse_via("local")
    for name in ("mpi", "gloo", "nccl-tests"):
        assert library_named(name, launcher=local).name == name
    with pytest.raises(InputError, match="known are mpi, gloo, nccl-tests"):
        library_named("nccl", launcher=local)
    with pytest.raises(InputError, match="--mca"):
        library_named("gloo", launcher=local, mca=["a=b"])
    with pytest.raises(InputError, match="one process a host"):
        library_named("gloo", launcher=parse_via("slurm"))
