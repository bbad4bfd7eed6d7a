"""Runs a program on sets of contributions, chunk by chunk, against its contract."""

from __future__ import annotations

import itertools

import numpy as np

from netprobe.plan.schedule.contract import Contract, bits
from netprobe.plan.schedule.program import APPLY, NOBODY, CollectiveProgram
from netprobe.plan.schedule.schedule import Ints
from netprobe.plan.schedule.waiting import Connections
from netprobe.probe.agent.collective.program import FETCH, RECEIVE, SEND


def check_contract(
    program: CollectiveProgram, rank: Ints, contract: Contract, connections: Connections, number: Ints
) -> bool:
    """Run each chunk on sets; chunks with the same actions are run once. Returns whether messages are uniform."""
    message = np.full(len(program), NOBODY, np.int64)
    message[connections.send] = message[connections.receive] = np.arange(len(connections.send))
    order = np.argsort(number, kind="stable")
    sizes = (program.last - program.first)[order]
    access = np.repeat(order, sizes)
    chunk = (
        np.repeat(program.first[order], sizes)
        + np.arange(len(access))
        - np.repeat(np.cumsum(sizes) - sizes, sizes)
    )
    by_chunk = np.argsort(chunk, kind="stable")
    access, chunk = access[by_chunk], chunk[by_chunk]
    begins = np.searchsorted(chunk, np.arange(program.chunks + 1))
    # A message's place within its chunk, so that equal chunks have equal columns.
    code = np.stack([
        program.kind[access], rank[access], program.peer[access], program.reduces[access].astype(np.int64),
        _local(message[access], begins),
    ])  # fmt: skip
    owed = _owed(contract)
    sent: dict[tuple[int, bytes], list[int]] = {}
    carried: list[tuple[int, list[int]]] = []
    for at in range(program.chunks):
        low, high = int(begins[at]), int(begins[at + 1])
        key = (owed[at][0], code[:, low:high].tobytes())
        if key not in sent:
            sent[key] = _run_chunk(
                program, access[low:high], code[:, low:high].tolist(), at, owed[at][1], contract
            )
        carried.append((low, sent[key]))
    return _uniform(program, access, carried)


def _local(message: Ints, begins: Ints) -> Ints:
    """Messages numbered within each chunk by where they first appear."""
    made = np.full(len(message), NOBODY, np.int64)
    place = np.arange(len(message)) - np.repeat(begins[:-1], np.diff(begins))
    has = np.flatnonzero(message >= 0)
    chunk = np.repeat(np.arange(len(begins) - 1), np.diff(begins))[has]
    keys = chunk * (1 << 32) + message[has]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    made[has] = place[has[first]][inverse]
    return made


Owed = tuple[int, dict[int, int]]
"""A number for what is owed of a chunk, and that: contributors (bit set) by rank."""


def _owed(contract: Contract) -> list[Owed]:
    """Of each chunk; neighbouring chunks of the same parts share the object."""
    edges = sorted({0, contract.chunks, *(e for part in contract.parts for e in (part.first, part.last))})
    begins: dict[int, list[tuple[int, tuple[int, ...]]]] = {edge: [] for edge in edges}
    for part in contract.parts:
        whole = bits(part.contributors)
        for edge in edges[edges.index(part.first) : edges.index(part.last)]:
            begins[edge].append((whole, part.receivers))
    known: dict[tuple[tuple[int, int], ...], Owed] = {}
    made: list[Owed] = []
    for first, last in itertools.pairwise(edges):
        owed = {rank: whole for whole, receivers in begins[first] for rank in receivers}
        one = known.setdefault(tuple(sorted(owed.items())), (len(known), owed))
        made.extend([one] * (last - first))
    return made


def _run_chunk(
    program: CollectiveProgram,
    access: Ints,
    code: list[list[int]],
    chunk: int,
    owed: dict[int, int],
    contract: Contract,
) -> list[int]:
    """One chunk through all its actions. Returns what each action holds or sends. Raises ValueError."""
    done = 1 << program.ranks
    holds: dict[int, int] = {}
    wire: dict[int, int] = {}
    delivered: set[int] = set()
    values = []
    for place, (kind, rank, _, reduces, message) in enumerate(zip(*code)):
        have = holds.get(rank, 0)
        fault = ""
        if kind == FETCH:
            fault = "fetches over what it holds" if have else ""
            have = holds[rank] = 1 << rank
        elif kind == SEND:
            fault = "" if have else "sends what it does not hold"
            wire[message] = have
        elif kind == RECEIVE:
            comes = wire.pop(message)
            if reduces and have & comes:
                fault = f"would add the part of rank {_lowest(have & comes)} twice"
            elif reduces and (not have or (have | comes) & done):
                fault = "adds to a chunk that holds nothing, or to an applied result"
            have = holds[rank] = have | comes if reduces else comes
        elif kind == APPLY:
            fault = "" if have in owed.values() else "applies what is not the whole sum"
            have = holds[rank] = have | done
        else:
            due = owed.get(rank)
            due = None if due is None else due | (done if contract.applied else 0)
            if due is None or rank in delivered:
                fault = "delivers what it does not owe, or twice"
            elif have != due:
                lacking, extra = due & ~have, have & ~due
                fault = (
                    f"lacks the part of rank {_lowest(lacking)}" if lacking and not lacking & done
                    else f"holds the part of rank {_lowest(extra)} too" if extra and not extra & done
                    else "holds the result before or after an apply that the contract has otherwise"
                )  # fmt: skip
            delivered.add(rank)
        if fault:
            raise ValueError(f"chunk {chunk}: {program.text(int(access[place]))} {fault}")
        values.append(have)
    missing = sorted(owed.keys() - delivered)
    if missing:
        raise ValueError(f"chunk {chunk}: rank {missing[0]} never delivers it")
    return values


def _lowest(parts: int) -> int:
    return (parts & -parts).bit_length() - 1


def _uniform(program: CollectiveProgram, access: Ints, carried: list[tuple[int, list[int]]]) -> bool:
    """Whether in each message of several chunks all hold the same."""
    wide = (program.kind == SEND) & (program.last - program.first > 1)
    if not wide.any():
        return True
    held: dict[int, int] = {}
    for low, values in carried:
        places = np.flatnonzero(wide[access[low : low + len(values)]])
        for place in places.tolist():
            action = int(access[low + place])
            if held.setdefault(action, values[place]) != values[place]:
                return False
    return True
