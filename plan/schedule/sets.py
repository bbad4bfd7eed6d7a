"""Runs a program on sets of contributions, chunk by chunk, against its contract."""

from __future__ import annotations

import itertools

import numpy as np

from netprobe.plan.schedule.contract import Contract, bits
from netprobe.plan.schedule.program import ACCESSES_AT_ONCE, APPLY, NOBODY, CollectiveProgram
from netprobe.plan.schedule.schedule import Ints
from netprobe.plan.schedule.waiting import Connections
from netprobe.probe.agent.collective.program import FETCH, RECEIVE, SEND


def check_contract(
    program: CollectiveProgram, rank: Ints, contract: Contract, connections: Connections, number: Ints
) -> bool:
    """Run each chunk on sets; chunks with the same actions are run once. Returns whether messages are uniform."""
    message = np.full(len(program), NOBODY, np.int64)
    message[connections.send] = message[connections.receive] = np.arange(len(connections.send))
    order = np.argsort(number, kind="stable").astype(np.int32)
    firsts, lasts = (column[order].astype(np.int32) for column in (program.first, program.last))
    owed = _owed(contract)
    known: dict[tuple[int, bytes], list[int]] = {}
    held: dict[int, int] = {}
    uniform = True
    # Some chunks at a time: what is kept for each chunk of an action is much more than what comes of it.
    accesses = int((program.last - program.first).sum())
    width = max(1, program.chunks * ACCESSES_AT_ONCE // max(accesses, 1))
    for low in range(0, program.chunks, width):
        high = min(program.chunks, low + width)
        own = order[(firsts < high) & (lasts > low)].astype(np.int64)
        access, begins = _accesses(program, own, low, high)
        # A message's place within its chunk, so that equal chunks have equal columns.
        code = np.stack([
            program.kind[access], rank[access], program.peer[access], program.reduces[access].astype(np.int64),
            _local(message[access], begins),
        ])  # fmt: skip
        for chunk in range(low, high):
            part = slice(int(begins[chunk - low]), int(begins[chunk - low + 1]))
            key = (owed[chunk][0], code[:, part].tobytes())
            if key not in known:
                rows = code[:, part].tolist()
                known[key] = _run_chunk(program, access[part], rows, chunk, owed[chunk][1], contract)
            uniform = uniform and _is_uniform(program, access[part], known[key], held)
    return uniform


def _accesses(program: CollectiveProgram, actions: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """``actions`` once for each of their chunks from ``low`` to ``high`` - 1, chunk by chunk; where each begins."""
    first, last = np.maximum(program.first[actions], low), np.minimum(program.last[actions], high)
    sizes = last - first
    access = np.repeat(actions, sizes)
    within = np.arange(len(access)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chunk = np.repeat(first, sizes) + within
    by_chunk = np.argsort(chunk, kind="stable")
    return access[by_chunk], np.searchsorted(chunk[by_chunk], np.arange(low, high + 1))


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


def _is_uniform(program: CollectiveProgram, access: Ints, values: list[int], held: dict[int, int]) -> bool:
    """Whether this chunk holds in each message of several chunks what the chunks before it held (``held``)."""
    wide = np.flatnonzero((program.kind[access] == SEND) & (program.last[access] - program.first[access] > 1))
    return all(held.setdefault(int(access[p]), values[p]) == values[p] for p in wide.tolist())
