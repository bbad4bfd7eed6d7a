"""What a candidate is called in a table, and what a plan keeps of it."""

from __future__ import annotations

import pytest

from netprobe.plan.auto.candidates import Candidate, Groups
from netprobe.plan.auto.predicting import Tried, rows_of

HOSTS = tuple("abcdef")
GROUPS = Groups(name="natural", ranks=((0, 1, 2), (3, 4), (5,)))


@pytest.mark.parametrize(
    ("candidate", "name", "label"),
    [
        (
            Candidate(algorithm="chunked-ring", order=HOSTS),
            "chunked-ring",
            "chunked-ring in the original order",
        ),
        (
            Candidate(algorithm="chunked-ring", order=HOSTS, order_name="found", channels=3),
            "chunked-ring, found order, 3 connections",
            "chunked-ring in the order found over 3 connections",
        ),
        (
            Candidate(algorithm="2lha", order=HOSTS, groups=GROUPS, chunk_bytes=65_536),
            "2lha, natural 3 of 1-3, chunks of 65.54 kB",
            "2lha on natural groups in the original order",
        ),
    ],
)
def test_a_candidate_is_called_by_what_distinguishes_it(candidate: Candidate, name: str, label: str) -> None:
    assert (candidate.name, candidate.label) == (name, label)


def test_a_plan_keeps_a_candidates_connections_chunks_and_bounds() -> None:
    ring = Candidate(algorithm="chunked-ring", order=HOSTS, channels=3)
    two_level = Candidate(algorithm="2lha", order=HOSTS, groups=GROUPS, chunk_bytes=65_536)
    first, second = rows_of(
        [
            Tried(candidate=ring, prediction=None, time_s=0.25),
            Tried(candidate=two_level, prediction=None, at_least_s=0.5),
        ],
        1_000_000,
    )
    assert (first.channels, first.pieces, first.time_s, first.at_least_s) == (3, 3, 0.25, None)
    assert (second.channels, second.pieces, second.time_s, second.at_least_s) == (1, 16, None, 0.5)
