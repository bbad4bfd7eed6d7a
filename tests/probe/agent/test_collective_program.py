"""What a rank's program may hold, and what a merge of contributions refuses."""

from __future__ import annotations

from typing import Any

import pytest

from netprobe.probe.agent.collective.program import (
    DELIVER,
    FETCH,
    MAX_BYTES,
    MAX_CHUNKS,
    MAX_RANKS,
    RECEIVE,
    SEND,
    Merge,
    RankProgram,
    ranks_of,
)


def program(sizes: Any = ((2, 100), (3, 10)), owed: Any = ((0, 5, 0b11),), rank: int = 1) -> RankProgram:
    return RankProgram(7, rank, 4, list(sizes), list(owed))


def test_chunks_lie_one_after_the_other_in_runs_of_one_size() -> None:
    made = program()
    assert made.starts == [0, 100, 200, 210, 220, 230] and made.chunks == 5
    assert made.size(1, 3) == 110 and made.size(0, 5) == 230
    assert program(owed=[(1, 3, 0b1)]).owed == [0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "arguments",
    [
        (7, 4, 4, [(1, 1)], []), (7, -1, 4, [(1, 1)], []), (7, 0, MAX_RANKS + 1, [(1, 1)], []),
        (7, 0, 4, [], []), (7, 0, 4, [(0, 1)], []), (7, 0, 4, [(1, -1)], []),
        (7, 0, 4, [(MAX_CHUNKS, 0), (1, 0)], []), (7, 0, 4, [(1, MAX_BYTES + 1)], []),
        (7, 0, 4, [(2, MAX_BYTES)], []),
        (7, 0, 4, [(2, 1)], [(0, 3, 1)]), (7, 0, 4, [(2, 1)], [(1, 1, 1)]), (7, 0, 4, [(2, 1)], [(-1, 1, 1)]),
        (7, 0, 4, [(2, 1)], [(0, 1, 0)]), (7, 0, 4, [(2, 1)], [(0, 1, 16)]),
    ],
)  # fmt: skip
def test_a_program_that_cannot_be_is_refused(arguments: Any) -> None:
    with pytest.raises(ValueError):
        RankProgram(*arguments)


def test_the_limits_themselves_are_allowed() -> None:
    assert RankProgram(7, 3, 4, [(1, 1)], [(0, 1, 15)]).owed == [15]
    assert RankProgram(7, 0, MAX_RANKS, [(MAX_CHUNKS, 0)], []).chunks == MAX_CHUNKS
    assert RankProgram(7, 0, 4, [(1, MAX_BYTES)], []).starts == [0, MAX_BYTES]


@pytest.mark.parametrize(
    "row",
    [
        [-1, 0, 1, 0, 0, False, []], [4, 0, 1, 0, 0, False, []], [FETCH, 0, 6, 0, 0, False, []],
        [FETCH, 1, 1, 0, 0, False, []], [FETCH, -1, 1, 0, 0, False, []], [FETCH, 0, 1, 0, 0, False, [1]],
        [FETCH, 0, 1, 0, 0, False, [-1]],
    ],
)  # fmt: skip
def test_an_action_that_cannot_be_is_refused(row: Any) -> None:
    made = program()
    made.add([[FETCH, 0, 5, 0, 0, False, []]])
    with pytest.raises(ValueError):
        made.add([row])


def test_actions_know_whom_they_wait_for_and_messages_their_order() -> None:
    made = program()
    made.add(
        [[FETCH, 0, 5, 0, 0, False, []], [SEND, 0, 2, 3, 1, False, [0]], [SEND, 2, 5, 3, 1, False, [0, 1]]]
    )
    made.add(
        [[RECEIVE, 0, 5, 2, 0, True, []], [DELIVER, 0, 5, 0, 0, False, [3]], [SEND, 0, 1, 2, 0, False, []]]
    )
    assert made.waits == [0, 1, 2, 0, 1, 0]
    assert made.then == [[1, 2], [2], [], [4], [], []]
    assert made.sends == {(3, 1): [1, 2], (2, 0): [5]} and made.receives == {(2, 0): [3]}
    assert made.reduces == [False, False, False, True, False, False]
    assert made.key[1] is made.key[2]  # one object: an agent is small


def merging(*rows: Any, owed: Any = ((0, 5, 0b11),)) -> Merge:
    made = program(owed=owed)
    made.add([[*row[:3], 0, 0, row[3], []] for row in rows])
    return Merge(made)


def test_contributions_are_added_once_and_put_in_place() -> None:
    merge = merging((FETCH, 0, 4, False), (RECEIVE, 0, 4, True), (RECEIVE, 1, 2, False), (SEND, 0, 2, False))
    merge.fetch(0)
    assert merge.parts == [2, 2, 2, 2, 0]
    merge.receive(1, 0b101)
    assert merge.parts == [7, 7, 7, 7, 0] and merge.sent(3) == 7
    merge.receive(2, 0b1)
    assert merge.parts == [7, 1, 7, 7, 0]
    with pytest.raises(ValueError):
        merge.sent(3)  # two chunks of unlike contributions
    with pytest.raises(ValueError, match="part of rank 2 twice"):
        merge.receive(1, 0b100)


def test_chunks_that_hold_nothing_are_not_sent() -> None:
    with pytest.raises(ValueError):
        merging((SEND, 0, 1, False)).sent(0)


def test_only_what_is_owed_is_delivered() -> None:
    merge = merging((FETCH, 0, 5, False), (RECEIVE, 0, 2, True), (DELIVER, 0, 2, False), owed=[(0, 2, 0b11)])
    merge.fetch(0)
    with pytest.raises(ValueError, match="chunk 0 lacks the part of rank 0"):
        merge.deliver(2)
    merge.receive(1, 0b1)
    merge.deliver(2)
    merge.parts[1] |= 0b1000
    with pytest.raises(ValueError, match="chunk 1 holds the part of rank 3 too"):
        merge.deliver(2)
    with pytest.raises(ValueError, match="nobody is owed"):
        merging((DELIVER, 4, 5, False), owed=[(0, 4, 0b11)]).deliver(0)


def test_a_set_is_its_bits() -> None:
    assert ranks_of(0) == [] and ranks_of(0b101001) == [0, 3, 5]
