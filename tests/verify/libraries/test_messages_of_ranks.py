"""What a job's messages must say before anything is concluded from them."""

from __future__ import annotations

from typing import Any

import pytest

from netprobe.verify.libraries.library import (
    FLOAT_BYTES,
    LEAST_WARM_BYTES,
    MAX_TRIAL_S,
    WARM_SHARE,
    check_ranks,
    seconds_in,
    text_in,
    warm_bytes,
)
from netprobe.verify.libraries.process_group import LibraryError


@pytest.mark.parametrize(
    "message",
    [
        {"seconds": 1.0},
        {"correct": False, "seconds": 1.0},
        {"correct": "yes", "seconds": 1.0},
        {"correct": True},
        {"correct": True, "seconds": True},
        {"correct": True, "seconds": "1"},
        {"correct": True, "seconds": 0},
        {"correct": True, "seconds": -1.0},
        {"correct": True, "seconds": float("nan")},
        {"correct": True, "seconds": MAX_TRIAL_S},
    ],
)
def test_a_time_counts_only_with_a_right_sum(message: dict[str, Any]) -> None:
    with pytest.raises(LibraryError, match="^x "):
        seconds_in(message, "x")


def test_times_and_texts_are_taken() -> None:
    assert seconds_in({"correct": True, "seconds": 2}, "x") == 2.0
    assert seconds_in({"correct": True, "seconds": 1e-6}, "x") == 1e-6
    assert text_in({"library": "Open\x1b[1mMPI"}, "library").isprintable()
    assert text_in({"library": 3}, "library") == text_in({}, "library") == "unknown"
    assert text_in({"library": "x" * 99}, "library", 10) != "x" * 99


@pytest.mark.parametrize(
    ("reported", "good"),
    [
        (["a", "b"], True),
        (["A.example", "b.rack1"], True),
        (["node-7", "b"], True),  # what no host is called says nothing
        (["b", "a"], False),
        (["a", "a"], False),
        (["a"], False),
        (["a", "b", "c"], False),
        (["a", 1], False),
        (None, False),
        ("ab", False),
    ],
)
def test_ranks_must_run_where_they_were_to(reported: object, good: bool) -> None:
    if good:
        check_ranks(reported, ["a", "b"])
        return
    with pytest.raises(LibraryError):
        check_ranks(reported, ["a", "b"])


def test_addresses_are_compared_whole() -> None:
    check_ranks(["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.2"])
    with pytest.raises(LibraryError, match="rank 0 runs on 10.0.0.2"):
        check_ranks(["10.0.0.2", "10.0.0.1"], ["10.0.0.1", "10.0.0.2"])


def test_what_goes_before_a_trial_is_a_share_of_it() -> None:
    large = 1000 * WARM_SHARE * LEAST_WARM_BYTES
    assert warm_bytes(large) == large // WARM_SHARE // FLOAT_BYTES * FLOAT_BYTES
    assert warm_bytes(4 * LEAST_WARM_BYTES if WARM_SHARE > 4 else LEAST_WARM_BYTES + 4) == LEAST_WARM_BYTES
    assert warm_bytes(4) == 4
