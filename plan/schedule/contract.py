"""What a collective must do: whose contributions to which chunks must end, as one sum, on which ranks.

A contract is a list of parts. A part says of a run of chunks who contributes to their sum and who must hold that
sum at the end. Every collective is such a list: an all-reduce is one part, a reduce-scatter one part per rank, an
average inside groups one part per group. Ranks in no part may still pass messages on (relays) or work on
what passes (servers).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Collective = Literal[
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "group_all_reduce", "all_to_all"
]
COLLECTIVES: tuple[str, ...] = get_args(Collective)
RESERVED = frozenset({"all_to_all"})
"""Part of the language, and no builder makes them yet."""
ROOTED = frozenset({"broadcast", "reduce"})


@dataclass(frozen=True)
class Part:
    """Chunks ``first`` to ``last`` - 1: the sum over ``contributors`` must end on each of ``receivers``."""

    first: int
    last: int
    contributors: tuple[int, ...]
    receivers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What ``ranks`` ranks must do on ``chunks`` chunks. Raises ValueError where parts contradict each other.

    ``applied`` means that receivers must hold what an ``apply`` action (an optimiser on a server) made of the sum.
    """

    collective: Collective
    ranks: int
    chunks: int
    parts: tuple[Part, ...]
    root: int | None = None
    applied: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.ranks < 1 or self.chunks < 1:
            raise ValueError(f"{self.ranks} ranks and {self.chunks} chunks: at least one of each is needed")
        if self.collective not in COLLECTIVES:
            raise ValueError(f"collective {self.collective!r}: known are {', '.join(COLLECTIVES)}")
        if (self.root is not None) != (self.collective in ROOTED):
            raise ValueError(
                f"{self.collective} with root {self.root}: only {', '.join(sorted(ROOTED))} have one"
            )
        for part in self.parts:
            self._check_part(part)
        self._check_overlaps()
        _CHECKS[self.collective](self)

    def _check_part(self, part: Part) -> None:
        if not 0 <= part.first < part.last <= self.chunks:
            raise ValueError(f"a part of chunks {part.first} to {part.last} of {self.chunks}")
        for what, ranks in (("contributors", part.contributors), ("receivers", part.receivers)):
            if not ranks or list(ranks) != sorted(set(ranks)) or ranks[0] < 0 or ranks[-1] >= self.ranks:
                raise ValueError(
                    f"{what} of chunk {part.first}: distinct ranks below {self.ranks}, ascending, are needed"
                )

    def _check_overlaps(self) -> None:
        """A rank may contribute to a chunk in one part only, and be owed it in one only."""
        ends: dict[tuple[bool, int], list[tuple[int, int]]] = {}
        for part in self.parts:
            run = (part.first, part.last)
            for receives, ranks in ((False, part.contributors), (True, part.receivers)):
                for rank in ranks:
                    ends.setdefault((receives, rank), []).append(run)
        for (receives, rank), runs in ends.items():
            runs.sort()
            for (_, last), (first, _) in itertools.pairwise(runs):
                if first < last:
                    what = "owed" if receives else "contributed by"
                    raise ValueError(f"chunk {first} is {what} rank {rank} in two parts")

    def owed(self) -> Iterable[tuple[int, int, int, int]]:
        """(rank, first, last, contributors as a bit set) of all that receivers must hold."""
        for part in self.parts:
            whole = bits(part.contributors)
            for rank in part.receivers:
                yield rank, part.first, part.last, whole

    def contributed(self) -> Iterable[tuple[int, int, int]]:
        """(rank, first, last) of all that is contributed."""
        for part in self.parts:
            for rank in part.contributors:
                yield rank, part.first, part.last

    @property
    def participants(self) -> tuple[int, ...]:
        """Ranks that contribute or receive; the others are relays or servers."""
        return tuple(sorted({r for part in self.parts for r in (*part.contributors, *part.receivers)}))


def bits(ranks: Iterable[int]) -> int:
    """A set of ranks as the bits of a whole number."""
    made = 0
    for rank in ranks:
        made |= 1 << rank
    return made


def all_reduce(ranks: int, chunks: int, members: Sequence[int] | None = None) -> Contract:
    """Every member ends with the sum over all members; all ranks unless ``members`` says otherwise."""
    who = tuple(range(ranks)) if members is None else tuple(sorted(members))
    return Contract(collective="all_reduce", ranks=ranks, chunks=chunks, parts=(Part(0, chunks, who, who),))


def reduce_scatter(ranks: int, owners: Sequence[int]) -> Contract:
    """Chunk c of the sum ends on rank ``owners[c]``."""
    everyone = tuple(range(ranks))
    parts = tuple(Part(first, last, everyone, (owner,)) for owner, first, last in owned_runs(owners))
    return Contract(collective="reduce_scatter", ranks=ranks, chunks=len(owners), parts=parts)


def all_gather(ranks: int, owners: Sequence[int]) -> Contract:
    """Chunk c of rank ``owners[c]`` ends on every rank."""
    everyone = tuple(range(ranks))
    parts = tuple(Part(first, last, (owner,), everyone) for owner, first, last in owned_runs(owners))
    return Contract(collective="all_gather", ranks=ranks, chunks=len(owners), parts=parts)


def broadcast(ranks: int, chunks: int, root: int) -> Contract:
    """What ``root`` holds ends on every rank."""
    part = Part(0, chunks, (root,), tuple(range(ranks)))
    return Contract(collective="broadcast", ranks=ranks, chunks=chunks, parts=(part,), root=root)


def reduce(ranks: int, chunks: int, root: int) -> Contract:
    """The sum over all ranks ends on ``root``."""
    part = Part(0, chunks, tuple(range(ranks)), (root,))
    return Contract(collective="reduce", ranks=ranks, chunks=chunks, parts=(part,), root=root)


def group_all_reduce(ranks: int, chunks: int, groups: Sequence[Sequence[int]]) -> Contract:
    """Each group's members end with the sum over their group; ranks in no group take no part."""
    parts = tuple(Part(0, chunks, tuple(sorted(g)), tuple(sorted(g))) for g in groups)
    return Contract(collective="group_all_reduce", ranks=ranks, chunks=chunks, parts=parts)


def owned_runs(owners: Sequence[int]) -> list[tuple[int, int, int]]:
    """(owner, first, last) of neighbouring chunks with one owner."""
    runs: list[tuple[int, int, int]] = []
    for chunk, owner in enumerate(owners):
        if runs and runs[-1][0] == owner:
            runs[-1] = (owner, runs[-1][1], chunk + 1)
        else:
            runs.append((owner, chunk, chunk + 1))
    return runs


def _covers_once(contract: Contract, what: str) -> None:
    """Every chunk is in one part."""
    at = 0
    for part in sorted(contract.parts, key=lambda part: part.first):
        if part.first != at:
            raise ValueError(f"{what}: chunk {min(at, part.first)} is in no part or in two")
        at = part.last
    if at != contract.chunks:
        raise ValueError(f"{what}: chunk {at} is in no part")


def _check_all_reduce(contract: Contract) -> None:
    _covers_once(contract, "all_reduce")
    first = contract.parts[0]
    if any(p.contributors != first.contributors or p.receivers != first.contributors for p in contract.parts):
        raise ValueError("all_reduce: those who contribute to any chunk must receive every chunk")


def _check_reduce_scatter(contract: Contract) -> None:
    _covers_once(contract, "reduce_scatter")
    members = contract.parts[0].contributors
    if any(p.contributors != members or len(p.receivers) != 1 for p in contract.parts):
        raise ValueError("reduce_scatter: everyone contributes to every chunk, and one rank receives it")


def _check_all_gather(contract: Contract) -> None:
    _covers_once(contract, "all_gather")
    members = contract.parts[0].receivers
    if any(p.receivers != members or len(p.contributors) != 1 for p in contract.parts):
        raise ValueError("all_gather: one rank contributes a chunk, and everyone receives it")


def _check_broadcast(contract: Contract) -> None:
    _covers_once(contract, "broadcast")
    if any(
        p.contributors != (contract.root,) or p.receivers != contract.parts[0].receivers
        for p in contract.parts
    ):
        raise ValueError("broadcast: only the root contributes, and the same ranks receive every chunk")


def _check_reduce(contract: Contract) -> None:
    _covers_once(contract, "reduce")
    if any(
        p.receivers != (contract.root,) or p.contributors != contract.parts[0].contributors
        for p in contract.parts
    ):
        raise ValueError("reduce: only the root receives, and the same ranks contribute to every chunk")


def _check_groups(contract: Contract) -> None:
    if any(p.contributors != p.receivers for p in contract.parts):
        raise ValueError(
            "group_all_reduce: the members of a group must be the same ranks that contribute and receive"
        )
    covered: dict[tuple[int, ...], int] = {}
    for part in contract.parts:
        covered[part.contributors] = covered.get(part.contributors, 0) + part.last - part.first
    if not covered or any(count != contract.chunks for count in covered.values()):
        raise ValueError("group_all_reduce: every group must share every chunk")


def _check_reserved(contract: Contract) -> None:
    raise ValueError(f"{contract.collective} is reserved: this version cannot prove or run it")


_CHECKS = {
    "all_reduce": _check_all_reduce,
    "reduce_scatter": _check_reduce_scatter,
    "all_gather": _check_all_gather,
    "broadcast": _check_broadcast,
    "reduce": _check_reduce,
    "group_all_reduce": _check_groups,
    "all_to_all": _check_reserved,
}
