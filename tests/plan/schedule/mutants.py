"""Single edits of schedules and programs, and what every timing of an accepted one gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.contract import Contract
from netprobe.plan.schedule.program import Action, CollectiveProgram, compile_schedule, program_of
from netprobe.plan.schedule.proof import prove
from netprobe.plan.schedule.schedule import COPY, REDUCE, Schedule, from_rows
from netprobe.probe.agent.collective.program import FETCH, RECEIVE, SEND
from tests.plan.schedule.timing import Delivered, Machine, StuckError, add_up, contributions, expected

MOST_STATES = 200_000
"""Of one exhaustive interleaving; above, it is given up and counted."""
RANDOM_TIMINGS = 200


class Mutant(NamedTuple):
    """An edited program, made when it is asked for; ``edit`` says what was edited."""

    edit: str
    made: Callable[[], CollectiveProgram | None]

    @property
    def program(self) -> CollectiveProgram:
        """Raises ValueError where the language itself refuses the edit."""
        program = self.made()
        if program is None:
            raise ValueError(self.edit)
        return program


def every_builder(ranks: int) -> Iterator[Schedule]:
    """A schedule of each builder among ``ranks`` ranks, on the fewest chunks that show its structure."""
    for name in [*ALGORITHMS, "bcube-2"]:
        yield build(name, ranks, channels=2 if name == "ring" else 1)
    groups = [list(range(g, ranks, 2)) for g in range(min(2, ranks))]
    yield two_level(groups, 2)
    yield hierarchical(groups)


def program_mutants(program: CollectiveProgram) -> Iterator[Mutant]:
    """Edits of one action: a dependency or the action dropped, chunk, peer, channel or reduce flag changed, a swap."""
    lists = [list(program.actions(rank)) for rank in range(program.ranks)]
    for rank, actions in enumerate(lists):

        def edited(own: list[Action], rank: int = rank) -> Callable[[], CollectiveProgram]:
            made = [*lists[:rank], own, *lists[rank + 1 :]]
            return partial(program_of, program.name, made, program.chunks, program.channels)

        for place, action in enumerate(actions):
            where = f"rank {rank}, action {place}"
            for lost in action.after:
                left = tuple(other for other in action.after if other != lost)
                yield Mutant(
                    f"{where}: dependency dropped", edited(_with(actions, place, action._replace(after=left)))
                )
            yield Mutant(f"{where}: dropped", edited(_without(actions, place)))
            for name, changed in _changes(action, program):
                yield Mutant(f"{where}: {name}", edited(_with(actions, place, changed)))
            if place + 1 < len(actions):
                yield Mutant(f"{where}: swapped with the next", edited(_swapped(actions, place)))


def _changes(action: Action, program: CollectiveProgram) -> Iterator[tuple[str, Action]]:
    if action.last < program.chunks:
        yield "chunks shifted", action._replace(first=action.first + 1, last=action.last + 1)
    if action.last - action.first > 1:
        yield "a chunk fewer", action._replace(last=action.last - 1)
    if action.kind in (SEND, RECEIVE):
        if program.ranks > 2:
            yield "peer", action._replace(peer=(action.peer + 1) % program.ranks)
        if program.channels > 1:
            yield "channel", action._replace(channel=(action.channel + 1) % program.channels)
    if action.kind == RECEIVE:
        yield "reduce flag", action._replace(reduces=not action.reduces)


def _with(actions: list[Action], place: int, action: Action) -> list[Action]:
    return [*actions[:place], action, *actions[place + 1 :]]


def _without(actions: list[Action], place: int) -> list[Action]:
    """Without one action: those that waited for it wait for what it waited for."""
    gone = actions[place].after

    def moved(after: tuple[int, ...]) -> tuple[int, ...]:
        own = {a for a in after if a != place} | (set(gone) if place in after else set())
        return tuple(sorted(a - (a > place) for a in own))

    return [action._replace(after=moved(action.after)) for action in _cut(actions, place)]


def _cut(actions: list[Action], place: int) -> list[Action]:
    return [*actions[:place], *actions[place + 1 :]]


def _swapped(actions: list[Action], place: int) -> list[Action]:
    """Two neighbours change places; a dependency of one on the other is lost."""
    other = {place: place + 1, place + 1: place}
    made: list[Action] = []
    for action in [*actions[:place], actions[place + 1], actions[place], *actions[place + 2 :]]:
        here = len(made)
        after = tuple(sorted(other.get(a, a) for a in action.after if other.get(a, a) < here))
        made.append(action._replace(after=after))
    return made


def schedule_mutants(schedule: Schedule) -> Iterator[Mutant]:
    """Edits of one transfer of a template, compiled: dropped, another rank, chunk, step or operation; two swapped."""
    for number, template in enumerate(schedule.templates):
        columns = (template.step, template.src, template.dst, template.first, template.last, template.op)
        rows = np.stack(columns, axis=1)
        for at in range(len(rows)):
            edits: dict[str, np.ndarray] = {"transfer dropped": np.delete(rows, at, axis=0)}
            for name, column, value in (
                ("sender", 1, (rows[at, 1] + 1) % schedule.ranks),
                ("receiver", 2, (rows[at, 2] + 1) % schedule.ranks),
                ("operation", 5, COPY if rows[at, 5] == REDUCE else REDUCE),
                ("step earlier", 0, rows[at, 0] - 1),
                ("step later", 0, rows[at, 0] + 1),
            ):
                made = rows.copy()
                made[at, column] = value
                edits[name] = made
            shifted = rows.copy()
            shifted[at, 3:5] += 1
            edits["chunks shifted"] = shifted
            if at + 1 < len(rows):
                swapped = rows.copy()
                swapped[[at, at + 1], 0] = rows[[at + 1, at], 0]
                edits["steps of neighbours swapped"] = swapped
            for name, made in edits.items():
                edit = f"template {number}, transfer {at}: {name}"
                yield Mutant(edit, partial(_compiled, schedule, number, made))


def _compiled(schedule: Schedule, number: int, rows: np.ndarray) -> CollectiveProgram | None:
    """None where the language itself refuses the edit."""
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    try:
        template = from_rows(schedule.templates[number].chunks, rows)
        made = Schedule(
            name=schedule.name,
            contract=schedule.contract,
            templates=(*schedule.templates[:number], template, *schedule.templates[number + 1 :]),
            blocks=schedule.blocks,
            channels=schedule.channels,
        )
    except ValueError:
        return None
    return compile_schedule(made)


def is_accepted(mutant: Mutant, contract: Contract) -> bool:
    """Whether the proof accepts it; a refusal is always a ValueError."""
    try:
        prove(mutant.program, contract)
    except ValueError:
        return False
    return True


class TooManyStatesError(Exception):
    """An exhaustive interleaving that was given up."""


def every_timing(program: CollectiveProgram, contract: Contract, own: list[list[int]]) -> bool:
    """Whether each interleaving ends with what the contract owes. Raises TooManyStatesError.

    Partial-order reduction: an action that reads and writes nothing that another enabled or later action of its rank
    touches unordered needs no branch of its own; states that agree in what is done and in all values are visited once.
    """
    due = expected(contract, own)
    seen: set[tuple[object, ...]] = set()
    todo: list[list[tuple[int, int]]] = [[]]
    while todo:
        path = todo.pop()
        machine = Machine(program, own)
        for step in path:
            machine.run(*step)
        while True:
            if not machine.left:
                if machine.delivered != due:
                    return False
                break
            if not machine.able:
                return False
            able = sorted(machine.able)
            alone = next((one for one in able if _independent(machine, one)), None)
            if alone is not None:
                machine.run(*alone)
                path = [*path, alone]
                continue
            state = _state(machine)
            if state in seen:
                break
            seen.add(state)
            if len(seen) > MOST_STATES:
                raise TooManyStatesError
            todo += [[*path, one] for one in able[1:]]
            machine.run(*able[0])
            path = [*path, able[0]]
    return True


def _independent(machine: Machine, one: tuple[int, int]) -> bool:
    """Whether no other action that is left of this rank conflicts with ``one`` without waiting for it."""
    rank, place = one
    action = machine.lists[rank][place]
    writes = action.kind in (FETCH, RECEIVE)
    after = _waiting_for(machine, rank, place)
    for other in machine.undone[rank]:
        if other == place or other in after:
            continue
        their = machine.lists[rank][other]
        overlap = their.first < action.last and action.first < their.last
        if overlap and (writes or their.kind in (FETCH, RECEIVE)):
            return False
    return True


def _waiting_for(machine: Machine, rank: int, place: int) -> set[int]:
    """Actions of the rank that cannot run before this one."""
    found: set[int] = set()
    todo = [place]
    while todo:
        for other in machine.then[rank][todo.pop()]:
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def _state(machine: Machine) -> tuple[object, ...]:
    return (
        tuple(tuple(sorted(undone)) for undone in machine.undone),
        tuple(map(tuple, machine.buffers)),
        tuple(
            (connection, tuple(map(tuple, held)))
            for connection, held in sorted(machine.connections.items())
            if held
        ),
        tuple(tuple(sorted((c, tuple(v)) for c, v in d.items())) for d in machine.delivered),
    )


def survives(program: CollectiveProgram, contract: Contract, timings: int = RANDOM_TIMINGS) -> bool:
    """Whether random timings on numbers all give what the contract owes."""
    own = contributions(contract, 1)
    due: Delivered = expected(contract, own)
    try:
        return all(add_up(program, own, seed) == due for seed in range(timings))
    except StuckError:
        return False


def sampled(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """At most so many of them, at random."""
    return mutants if len(mutants) <= count else random.Random(seed).sample(mutants, count)
