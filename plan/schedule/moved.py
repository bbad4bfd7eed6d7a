"""The proof of a schedule some blocks of which differ from those of a proved one: only these are proved again.

A block acts on its own chunks. So what a rank does with the other chunks, and what waits for what there, is as
before, which is checked action by action and not taken on trust; the blocks that moved are proved as a schedule of
their own, and again the whole program must do with their chunks what that one does. What concerns all chunks together
is looked at in the whole program: both ends of every connection, and that nothing waits in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.schedule.contract import Contract, Part
from netprobe.plan.schedule.program import CollectiveProgram, compile_schedule
from netprobe.plan.schedule.proof import Proof, prove, prove_order
from netprobe.plan.schedule.schedule import Ints, Schedule
from netprobe.probe.agent.collective.program import DELIVER, FETCH


def prove_moved(
    before: Schedule, program: CollectiveProgram, proof: Proof, after: Schedule
) -> tuple[CollectiveProgram, Proof]:
    """The program of ``after`` and its proof, given those of ``before``: what `prove` finds, sooner.

    Raises ValueError as `prove` does. Where the two are too different for this, all is proved.
    """
    made = compile_schedule(after)
    moved = moved_blocks(before, after)
    if moved is None or not _simple(after.contract) or not proof.uniform_messages:
        return made, prove(made, after.contract)
    ends = np.cumsum([0, *(len(block.weights) for block in after.blocks)])
    is_moved = np.zeros(after.chunks, np.bool_)
    for block in moved:
        is_moved[ends[block] : ends[block + 1]] = True
    window, issue_order = prove_order(made, after.contract)
    _same(made, ~is_moved, program, ~is_moved, "stayed")
    if (_ends(made) != _ends(program)).any():
        raise ValueError("what ranks fetch and deliver is not what was proved")
    uniform = True
    if moved:
        part = _part(after, moved, int(is_moved.sum()))
        own = compile_schedule(part)
        uniform = prove(own, part.contract).uniform_messages
        _same(made, is_moved, own, np.ones(part.chunks, np.bool_), "moved")
    return made, Proof(window=window, issue_order=issue_order, uniform_messages=uniform)


def moved_blocks(before: Schedule, after: Schedule) -> list[int] | None:
    """The blocks that differ; None where the two cannot be compared block by block."""
    if before.contract != after.contract or before.channels != after.channels:
        return None
    if [len(b.weights) for b in before.blocks] != [len(b.weights) for b in after.blocks]:
        return None
    keys = [[template.key() for template in one.templates] for one in (before, after)]
    return [
        place
        for place, (was, now) in enumerate(zip(before.blocks, after.blocks))
        if (was.channel, was.start) != (now.channel, now.start)
        or keys[0][was.template] != keys[1][now.template]
    ]


def _simple(contract: Contract) -> bool:
    """Whether all chunks are under the same terms."""
    return all(part.first == 0 and part.last == contract.chunks for part in contract.parts)


def _part(schedule: Schedule, blocks: Sequence[int], chunks: int) -> Schedule:
    """Some blocks as a schedule of their own."""
    contract = schedule.contract
    parts = tuple(Part(0, chunks, part.contributors, part.receivers) for part in contract.parts)
    return Schedule(
        name=schedule.name,
        contract=Contract(
            collective=contract.collective,
            ranks=contract.ranks,
            chunks=chunks,
            parts=parts,
            root=contract.root,
            applied=contract.applied,
        ),
        templates=schedule.templates,
        blocks=tuple(schedule.blocks[block] for block in blocks),
        channels=schedule.channels,
    )


def _ends(program: CollectiveProgram) -> Ints:
    """(E, 4) rank, kind and chunks of all that is fetched and delivered: of equal contracts the same."""
    ends = np.flatnonzero(np.isin(program.kind, (FETCH, DELIVER)))
    columns = (program.rank_of(), program.kind, program.first, program.last)
    return np.stack([column[ends] for column in columns], axis=1)


def _same(
    one: CollectiveProgram, chosen: NDArray[np.bool_], other: CollectiveProgram, known: NDArray[np.bool_],
    what: str,
) -> None:  # fmt: skip
    """Raises ValueError unless two programs do the same with the chunks that each has ``chosen``, and ``known``."""
    rows, known_rows = _actions_on(one, chosen), _actions_on(other, known)
    for ours, proved in zip(rows, known_rows):
        if ours.shape != proved.shape or (ours != proved).any():
            raise ValueError(f"what ranks do with chunks that {what} is not what was proved of them")


def _actions_on(program: CollectiveProgram, chosen: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """What a program does with some chunks, numbered among themselves: actions (A, 8), and what waits (W, 2).

    Fetching and delivering go over runs of chunks, which depend on the others: they are the same -1 and -2 of each
    rank, and what is fetched and delivered is the contract's.
    """
    number = np.concatenate([[0], np.cumsum(chosen)])
    inside = number[program.last] > number[program.first]
    ends = np.isin(program.kind, (FETCH, DELIVER))
    own = np.flatnonzero(inside & ~ends)
    rank = program.rank_of()
    actions = np.stack([
        rank[own], program.kind[own], number[program.first[own]], number[program.last[own]],
        program.peer[own], program.channel[own], program.reduces[own].astype(np.int64), program.step[own],
    ], axis=1)  # fmt: skip
    place = np.full(len(program), -1, np.int64)
    place[own] = np.arange(len(own))
    place[program.kind == DELIVER] = -2
    later = np.repeat(np.arange(len(program)), np.diff(program.after_bounds))
    kept = (place[later] >= 0) | ((place[program.after] >= 0) & ends[later])
    waits = np.stack([rank[later], place[later], place[program.after]], axis=1)[kept]
    waits = waits[np.lexsort(waits.T)]
    return actions, waits
