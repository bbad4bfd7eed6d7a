"""What the ranks do in the collective of a cost model: its rounds, compiled to actions and proved."""

from __future__ import annotations

from netprobe.core.errors import InputError, InternalError
from netprobe.plan.costs.model import CostModel
from netprobe.plan.schedule.actions import MAX_CHANNELS, CollectiveProgram, compile_rounds
from netprobe.plan.schedule.proof import check_actions
from netprobe.plan.schedule.rounds import check_program
from netprobe.probe.agent.collective.program import MAX_CHUNKS, MAX_RANKS


def compile_model(model: CostModel, ranks: int, channels: int = 1) -> CollectiveProgram:
    """What ``ranks`` ranks do in the collective of a cost model, over ``channels`` connections a pair.

    Every channel runs the whole algorithm on its own share of the buffer, as NCCL's do. Raises InputError for
    more ranks or channels than can be run.
    """
    if not 1 <= channels <= MAX_CHANNELS:
        raise InputError(f"{channels} channels: 1 to {MAX_CHANNELS} are allowed")
    if not 1 <= ranks <= MAX_RANKS:
        raise InputError(f"{ranks} ranks: 1 to {MAX_RANKS} are allowed")
    chunks = model.chunks(ranks)
    if chunks * channels > MAX_CHUNKS:
        raise InputError(f"{ranks} ranks over {channels} channels: choose fewer channels")
    rounds = [list(transfers) for transfers in model.program(ranks)]
    check_program(rounds, ranks, chunks, model.collective)
    return compile_rounds(model.name, rounds, ranks, chunks, model.collective, channels)


def proved_program(model: CostModel, ranks: int, channels: int = 1) -> CollectiveProgram:
    """``compile_model``, and the proof of what it made. Raises InputError, InternalError where that fails."""
    program = compile_model(model, ranks, channels)
    try:
        check_actions(program)
    except ValueError as error:
        raise InternalError(
            f"{program.name} among {ranks} ranks compiles to what it is not: {error}"
        ) from None
    return program
