"""Schedules of the algorithms, for any number of ranks: ``build`` by name, and one function per algorithm.

An algorithm is rounds of transfers on its own number of chunks; ``build`` makes of them a template, and of that a
schedule of one block per channel. Algorithms that need groups of ranks (hierarchical, two-level) have functions of
their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from netprobe.core.errors import InputError, InternalError
from netprobe.plan.schedule.builders.exchange import (
    bcube_rounds,
    halving_doubling_rounds,
    recursive_doubling_rounds,
    reduce_scatter_rounds,
)
from netprobe.plan.schedule.builders.ring import chunked_ring_rounds, two_way_ring_rounds, whole_ring_rounds
from netprobe.plan.schedule.builders.rounds import power_of_two
from netprobe.plan.schedule.builders.tree import binomial_rounds, bit_trees, middle_trees, rooted, tree_rounds
from netprobe.plan.schedule.contract import Contract, all_reduce, reduce_scatter
from netprobe.plan.schedule.program import MAX_CHANNELS, CollectiveProgram, compile_schedule
from netprobe.plan.schedule.proof import Proof, prove
from netprobe.plan.schedule.schedule import Round, Schedule, one_template, template_of_rounds
from netprobe.probe.agent.collective.program import MAX_RANKS


@dataclass(frozen=True)
class Algorithm:
    """Rounds among ``ranks`` ranks, and into how many chunks a block is cut for them."""

    rounds: Callable[[int], list[Round]]
    chunks: Callable[[int], int]
    scatters: bool = False
    """Whether it is a reduce-scatter: chunk r of a block ends on rank r."""


def _one(ranks: int) -> int:  # noqa: ARG001
    return 1


def _two(ranks: int) -> int:  # noqa: ARG001
    return 2


def _a_rank(ranks: int) -> int:
    return ranks


ALGORITHMS: dict[str, Algorithm] = {
    "ring": Algorithm(whole_ring_rounds, _one),
    "chunked-ring": Algorithm(chunked_ring_rounds, _a_rank),
    "two-way-ring": Algorithm(two_way_ring_rounds, lambda ranks: 2 * ranks),
    "halving-doubling": Algorithm(halving_doubling_rounds, power_of_two),
    "halving-doubling-farthest-first": Algorithm(
        lambda ranks: halving_doubling_rounds(ranks, nearest_first=False), power_of_two
    ),
    "recursive-doubling": Algorithm(recursive_doubling_rounds, _one),
    "reduce-scatter": Algorithm(reduce_scatter_rounds, _a_rank, scatters=True),
    "bcube": Algorithm(lambda ranks: bcube_rounds(ranks, 4), _a_rank),
    "flat": Algorithm(lambda ranks: bcube_rounds(ranks, max(ranks, 2)), _a_rank),
    "double-binary-tree": Algorithm(
        lambda ranks: tree_rounds([rooted(p) for p in middle_trees(ranks)]), _two
    ),
    "nccl-tree": Algorithm(lambda ranks: tree_rounds([rooted(p) for p in bit_trees(ranks)]), _two),
    "binomial-tree": Algorithm(binomial_rounds, _one),
}
"""Every algorithm that needs no groups, by the name a user gives. ``flat`` is flat aggregation: every rank is the
server of its own chunk, fully sharded and colocated, one direct exchange each way."""


_OWN = frozenset((*ALGORITHMS, "2lha", "hierarchical"))


def is_own_name(name: str) -> bool:
    """Whether an algorithm of netprobe's own is called so; a user may give a schedule any other name."""
    base = name.removeprefix("bcube-")
    return name in _OWN or (name != base and base.isascii() and base.isdigit())


def build(name: str, ranks: int, channels: int = 1, blocks: int | None = None) -> Schedule:
    """The schedule of ``name`` among ``ranks`` ranks over ``channels`` connections per pair.

    The buffer is cut into ``blocks`` equal blocks (one per channel unless given), block i over channel i modulo
    ``channels``: each runs the whole algorithm on its share. Raises InputError for an unknown name, and for more
    ranks or channels than can be run.
    """
    algorithm = algorithm_of(name)
    if not 1 <= channels <= MAX_CHANNELS:
        raise InputError(f"{channels} channels: 1 to {MAX_CHANNELS} are allowed")
    if not 1 <= ranks <= MAX_RANKS:
        raise InputError(f"{ranks} ranks: 1 to {MAX_RANKS} are allowed")
    count = channels if blocks is None else blocks
    if count < 1:
        raise InputError(f"{count} blocks: at least 1 is needed")
    chunks = algorithm.chunks(ranks)
    contract: Contract = (
        reduce_scatter(ranks, list(range(ranks)) * count)
        if algorithm.scatters
        else all_reduce(ranks, chunks * count)
    )
    template = template_of_rounds(algorithm.rounds(ranks), chunks)
    return one_template(name, contract, template, blocks=count, channels=channels)


def algorithm_of(name: str) -> Algorithm:
    """The algorithm called ``name``; ``bcube-B`` is BCube of base B. Raises InputError that lists the known ones."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    base = name.removeprefix("bcube-")
    if name.startswith("bcube-") and base.isascii() and base.isdigit() and 2 <= int(base[:9]) <= MAX_RANKS:
        return Algorithm(lambda ranks: bcube_rounds(ranks, int(base)), _a_rank)
    raise InputError(f"no algorithm {name[:60]!r}: known are {', '.join(ALGORITHMS)}")


def proved(schedule: Schedule) -> tuple[CollectiveProgram, Proof]:
    """The program of a schedule that was just built, and its proof. Raises InputError where that fails.

    InternalError for an algorithm of netprobe's own.
    """
    program = compile_schedule(schedule)
    try:
        return program, prove(program, schedule.contract)
    except ValueError as error:
        raise (InternalError if is_own_name(schedule.name) else InputError)(
            f"{schedule.name} among {schedule.ranks} ranks is not the collective it says: {error}"
        ) from None


ON_THE_WIRE = {"ring": "chunked-ring"}
"""What is run for a plan of that name. No library sends a whole buffer hop by hop round a ring: NCCL, Gloo and Open
MPI cut it, so that all hops are busy at once."""
