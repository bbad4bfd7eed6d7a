"""Compiled programs do their collective, whatever the timing, and the proof finds those that do not."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.plan.costs import MODELS, BCube, CostModel
from netprobe.plan.costs.programs import compile_model
from netprobe.plan.schedule.actions import Action, CollectiveProgram, compile_rounds
from netprobe.plan.schedule.proof import check_actions, owed
from netprobe.plan.schedule.rounds import Transfer
from netprobe.probe.agent.collective.program import DELIVER, FETCH, RECEIVE, SEND
from tests.properties import examples

EVERY: list[CostModel] = [*MODELS.values(), BCube(2), BCube(3)]
each_model = pytest.mark.parametrize("model", EVERY, ids=lambda model: model.name)


def add_up(program: CollectiveProgram, seed: int) -> list[dict[int, int]]:
    """Run the actions on numbers, each time any one that may run next; what each rank delivers, by chunk."""
    rng = random.Random(seed)
    own = [[rng.getrandbits(40) for _ in range(program.chunks)] for _ in range(program.ranks)]
    buffers = [[0] * program.chunks for _ in range(program.ranks)]
    delivered: list[dict[int, int]] = [{} for _ in range(program.ranks)]
    lines: dict[tuple[int, int, int], deque[list[int]]] = {}
    waits = [[len(action.after) for action in actions] for actions in program.actions]
    # What a line has yet to send, and to receive: only the first of each may run.
    ends: dict[tuple[int, int, int, int], deque[int]] = {}
    for rank, actions in enumerate(program.actions):
        for place, action in enumerate(actions):
            if action.peer >= 0:
                ends.setdefault((rank, action.kind, action.peer, action.channel), deque()).append(place)
    able = {(rank, 0) for rank in range(program.ranks)}

    def may_run(rank: int, place: int) -> bool:
        action = program.actions[rank][place]
        if waits[rank][place]:
            return False
        if action.peer >= 0 and ends[rank, action.kind, action.peer, action.channel][0] != place:
            return False
        return action.kind != RECEIVE or bool(lines.get((action.peer, rank, action.channel)))

    left = sum(map(len, program.actions))
    while left:
        assert able, "nothing may run, and not all is done"
        rank, place = rng.choice(sorted(able))
        able.discard((rank, place))
        left -= 1
        action = program.actions[rank][place]
        chunks = range(action.first, action.last)
        if action.kind == FETCH:
            for chunk in chunks:
                buffers[rank][chunk] = own[rank][chunk]
        elif action.kind == SEND:
            line = (rank, action.peer, action.channel)
            lines.setdefault(line, deque()).append([buffers[rank][chunk] for chunk in chunks])
        elif action.kind == RECEIVE:
            for chunk, value in zip(chunks, lines[action.peer, rank, action.channel].popleft(), strict=True):
                buffers[rank][chunk] = value + (buffers[rank][chunk] if action.reduces else 0)
        else:
            delivered[rank] |= {chunk: buffers[rank][chunk] for chunk in chunks}
        looked_at = {(rank, other) for other, one in enumerate(program.actions[rank]) if place in one.after}
        for _, other in looked_at:
            waits[rank][other] -= 1
        if action.peer >= 0:
            here = ends[rank, action.kind, action.peer, action.channel]
            here.popleft()
            looked_at |= {(rank, head) for head in list(here)[:1]}
            there = ends.get((action.peer, RECEIVE, rank, action.channel), deque())
            looked_at |= {(action.peer, head) for head in list(there)[:1]}
        able |= {one for one in looked_at if may_run(*one)}
    totals = [sum(values) for values in zip(*own, strict=True)]
    for rank, found in enumerate(delivered):
        assert all(value == totals[chunk] for chunk, value in found.items()), rank
    return delivered


@each_model
def test_every_rank_delivers_the_sum_among_any_number_of_ranks(model: CostModel) -> None:
    for ranks in range(1, 21):
        program = compile_model(model, ranks)
        check_actions(program)
        if ranks <= 9:
            for rank, found in enumerate(add_up(program, ranks)):
                assert set(found) == owed(program, rank)


@examples(30)
@given(st.sampled_from(EVERY), st.integers(1, 9), st.integers(1, 3), st.integers(0, 1 << 30))
def test_channels_share_the_buffer_and_no_timing_spoils_the_sum(
    model: CostModel, ranks: int, channels: int, seed: int
) -> None:
    program = compile_model(model, ranks, channels)
    check_actions(program)
    assert program.chunks == channels * model.chunks(ranks)
    add_up(program, seed)
    # The same bytes as of one channel, but for parts that are no whole bytes.
    size = 2520 * program.chunks
    assert program.sent_bytes(size) == compile_model(model, ranks).sent_bytes(size)


def test_a_ring_sends_what_is_known_of_it() -> None:
    program = compile_model(MODELS["chunked-ring"], 8)
    assert program.sent_bytes(8_000) == 2 * 7 * 8_000
    assert program.messages == 8 * 14 and program.links() == {(i, i + 1) for i in range(7)} | {(0, 7)}
    assert max(len(own) for own in program.actions) == 30
    # Nothing waits for more than the message before it and what it will change.
    assert max(len(a.after) for own in program.actions for a in own if a.kind != DELIVER) <= 2


def spoiled(program: CollectiveProgram, rank: int, actions: list[Action]) -> CollectiveProgram:
    every = [list(own) for own in program.actions]
    every[rank] = actions
    fields = {key: getattr(program, key) for key in ("name", "collective", "ranks", "chunks", "channels")}
    return CollectiveProgram(actions=tuple(map(tuple, every)), **fields)


def test_the_proof_finds_a_program_that_is_wrong() -> None:
    program = compile_model(MODELS["chunked-ring"], 4)
    own = list(program.actions[1])
    sends = [place for place, action in enumerate(own) if action.kind == SEND]
    first, second = sends[:2]
    swapped = list(own)
    swapped[first] = own[first]._replace(first=own[second].first, last=own[second].last)
    swapped[second] = own[second]._replace(first=own[first].first, last=own[first].last)
    with pytest.raises(ValueError, match="in another order"):
        check_actions(spoiled(program, 1, swapped))
    with pytest.raises(ValueError, match="other messages"):
        check_actions(
            spoiled(program, 1, [*own[:first], *[a for a in own[first + 1 :] if a.kind == DELIVER]])
        )
    with pytest.raises(ValueError, match="never delivers chunk 0"):
        check_actions(spoiled(program, 1, own[:-1]))
    early = [action._replace(after=()) if action.kind == DELIVER else action for action in own]
    with pytest.raises(ValueError, match="lacks the part of rank"):
        check_actions(spoiled(program, 1, early))
    with pytest.raises(ValueError, match="waits for action"):
        check_actions(spoiled(program, 1, [own[0]._replace(after=(3,)), *own[1:]]))
    with pytest.raises(ValueError, match="a peer 9"):
        check_actions(spoiled(program, 1, [own[0], own[1]._replace(peer=9), *own[2:]]))


def test_the_proof_finds_ranks_that_wait_for_each_other_for_ever() -> None:
    fetch, tail = Action(FETCH, 0, 1), Action(DELIVER, 0, 1, after=(2,))
    actions = tuple(
        (fetch, Action(RECEIVE, 0, 1, other, 0, True, (0,)), Action(SEND, 0, 1, other, 0, False, (1,)), tail)
        for other in (1, 0)
    )
    program = CollectiveProgram(
        name="x", collective="all_reduce", ranks=2, chunks=1, channels=1, actions=actions
    )
    with pytest.raises(ValueError, match="wait for ever"):
        check_actions(program)
    twice = compile_rounds(
        "x", [*[[Transfer(0, 1, 0, 1, True)]] * 2, [Transfer(1, 0, 0, 1, False)]], 2, 1, "all_reduce"
    )
    with pytest.raises(ValueError, match="twice"):
        check_actions(twice)


def test_what_cannot_be_run_is_refused_in_a_line() -> None:
    for ranks, channels, text in ((0, 1, "0 ranks"), (4, 0, "0 channels"), (5000, 1, "5000 ranks")):
        with pytest.raises(InputError, match=text):
            compile_model(MODELS["ring"], ranks, channels)
