"""What can be chosen: an algorithm, the order of its ranks, groups, chunks and channels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from netprobe.core.documents.capacity import Capacity
from netprobe.core.errors import InputError
from netprobe.core.units import size_text
from netprobe.plan.auto.master_shares import MasterShares, master_shares
from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.program import MAX_CHANNELS
from netprobe.plan.schedule.schedule import MAX_TRANSFERS, Schedule
from netprobe.plan.simulate.network import pooled_rates
from netprobe.probe.agent.collective.program import MAX_CHUNKS, MAX_RANKS

CHUNK_BYTES = 64 * 1024
"""Chunk size of 2LHA in PLink."""
TUNED_BYTES = (CHUNK_BYTES, 4 * CHUNK_BYTES, 16 * CHUNK_BYTES, 64 * CHUNK_BYTES)
CHUNKS_A_HOST, LEAST_CHUNK_BYTES, FEW_CHUNKS = 3, CHUNK_BYTES // 4, 128
"""2LHA without a chunk size: so many chunks a host, that phases of one overlap with those of others, as long as none
is smaller than that and there are no more in all. Where they would be larger than CHUNK_BYTES, those of TUNED_BYTES
are finer, and faster on a wire: the simulator thinks too well of few large ones."""
MOST_CHUNKS_TUNED = 2048
"""Most chunks of a candidate: more gain nothing, and make the plan large."""
MOST_TRANSFERS = 1 << 21
"""Most transfers of a schedule: so many are built and proved in a few seconds."""
SHARES_SLACK = 0.05
"""Masters are shared in proportion to the sizes of groups, and equally inside them, where that costs no more than so
much at the fullest link: by the simulator such schedules are the faster ones."""
TREES = frozenset({"double-binary-tree", "nccl-tree"})
TREE_CHUNKS = (4 * CHUNK_BYTES, 16 * CHUNK_BYTES)
GIVEN = "original"
"""The name of the original order."""
MOST_PIECES, COARSE_PIECES = 512, 128
"""Chunks that a choice is made among; and where only the sizes at which it changes are looked for."""
MANY_HOSTS = 64
"""Above so many hosts there are fewer chunks to choose among."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of ranks (in the original order), how they were formed, and the known shares of masters."""

    name: str
    ranks: tuple[tuple[int, ...], ...]
    shares: MasterShares | None = None
    others: MasterShares | None = None
    """The shares in which the group of a slow host takes its part too, where they differ. Which are faster depends on
    how many groups and chunks there are: both are tried."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An algorithm on an order. ``blocks`` is how many equal pieces the buffer is cut into (2LHA: chunks).

    ``chunk_bytes`` is set where the number of pieces follows from the size: one for so many bytes. Otherwise each
    channel has one; 2LHA one per host, or up to CHUNKS_A_HOST that are no larger than CHUNK_BYTES.
    """

    algorithm: str
    order: tuple[str, ...]
    order_name: str = GIVEN
    groups: Groups | None = None
    chunk_bytes: int | None = None
    channels: int = 1
    _built: dict[int, Schedule] = field(default_factory=dict, repr=False, compare=False, hash=False)

    @property
    def label(self) -> str:
        """What distinguishes it from others, except its chunks."""
        parts = [self.algorithm]
        if self.groups is not None:
            parts.append(f"on {self.groups.name} groups")
        parts.append(
            f"in the order {self.order_name}" if self.order_name != GIVEN else "in the original order"
        )
        if self.channels > 1:
            parts.append(f"over {self.channels} connections")
        return " ".join(parts)

    @property
    def name(self) -> str:
        """The same in fewer words, with the chunks and the sizes of groups: a cell of a table."""
        parts = [self.algorithm]
        if self.groups is not None:
            sizes = sorted(map(len, self.groups.ranks))
            of = str(sizes[0]) if sizes[0] == sizes[-1] else f"{sizes[0]}-{sizes[-1]}"
            parts.append(f"{self.groups.name} {len(sizes)} of {of}")
            shares = self.groups.shares
            if shares is not None and min(shares.groups) == 0:
                parts.append(f"no global masters in {shares.groups.count(0)}")
        if self.order_name != GIVEN:
            parts.append(f"{self.order_name} order" if self.order_name == "found" else self.order_name)
        if self.chunk_bytes is not None:
            parts.append(f"chunks of {size_text(self.chunk_bytes)}")
        if self.channels > 1:
            parts.append(f"{self.channels} connections")
        return ", ".join(parts)

    def pieces(self, size_bytes: int) -> int:
        """Into how many blocks a buffer of so many bytes is cut."""
        if self.chunk_bytes is None:
            return max(
                self.channels, self._rows(size_bytes) * len(self.order) if self.algorithm == "2lha" else 1
            )
        return max(self.channels, math.ceil(size_bytes / self.chunk_bytes))

    def _rows(self, size_bytes: int) -> int:
        """How many chunks a host is global master of in 2LHA, where no size is given."""
        hosts = len(self.order)
        if size_bytes > CHUNKS_A_HOST * CHUNK_BYTES * hosts:
            return 1
        return max(1, min(CHUNKS_A_HOST, size_bytes // (LEAST_CHUNK_BYTES * hosts), FEW_CHUNKS // hosts))

    def transfers(self, size_bytes: int) -> int:
        """About how many transfers its schedule has."""
        return 2 * len(self.order) * self.pieces(size_bytes)

    def schedule(self, size_bytes: int) -> Schedule:
        """The schedule for a buffer of ``size_bytes``. Raises InputError where it would be too large."""
        count = self.pieces(size_bytes)
        if count not in self._built:
            self._check(count, size_bytes)
            self._built.clear()
            self._built[count] = self._build(count)
        return self._built[count]

    def _build(self, count: int) -> Schedule:
        if self.groups is None:
            return build(self.algorithm, len(self.order), self.channels, count)
        if self.algorithm == "hierarchical":
            return hierarchical(self.groups.ranks, channels=self.channels, blocks=count)
        shares = self.groups.shares
        return two_level(
            self.groups.ranks,
            count,
            weights=None if shares is None else shares.hosts,
            group_weights=None if shares is None else shares.groups,
            channels=self.channels,
        )

    def _check(self, count: int, size_bytes: int) -> None:
        if not 1 <= self.channels <= MAX_CHANNELS:
            raise InputError(f"{self.channels} channels: 1 to {MAX_CHANNELS} are allowed")
        if len(self.order) > MAX_RANKS:
            raise InputError(f"{len(self.order)} hosts: {MAX_RANKS} at most can run a schedule")
        if count > MAX_CHUNKS or (
            self.chunk_bytes is not None and self.transfers(size_bytes) > MAX_TRANSFERS
        ):
            least = math.ceil(size_bytes / min(MAX_CHUNKS, MAX_TRANSFERS // (2 * len(self.order))))
            raise InputError(
                f"{size_text(size_bytes)} in chunks of {self.chunk_bytes} B are {count} chunks among "
                f"{len(self.order)} hosts, more than a schedule holds: give --chunk {least}B or more"
            )


def two_level_candidates(
    order: Sequence[str],
    groups: Groups,
    size_bytes: int | None,
    *,
    chunk_bytes: int | None,
    channels: int = 1,
) -> list[Candidate]:
    """2LHA on ``groups`` with chunks of ``chunk_bytes``, or with each size worth trying (None).

    Those are TUNED_BYTES as far as the buffer is larger (all for ``size_bytes`` None), and one to CHUNKS_A_HOST a
    host. Where ``groups`` have other shares too, each with both.
    """
    if groups.others is not None:
        apart = (replace(groups, others=None), replace(groups, shares=groups.others, others=None))
        each = [
            two_level_candidates(order, one, size_bytes, chunk_bytes=chunk_bytes, channels=channels)
            for one in apart
        ]
        return [*each[0], *each[1]]
    base = Candidate(
        algorithm="2lha", order=tuple(order), groups=groups, chunk_bytes=chunk_bytes, channels=channels
    )
    if chunk_bytes is not None:
        return [base]
    tuned = [replace(base, chunk_bytes=size, _built={}) for size in TUNED_BYTES]
    if size_bytes is None:
        return [*tuned, base]
    tuned = [one for one in tuned if (one.chunk_bytes or 0) < size_bytes]
    return [one for one in [*tuned, base] if one.pieces(size_bytes) <= MOST_CHUNKS_TUNED] or [base]


def flat_candidates(
    orders: Mapping[str, Mapping[str, Sequence[str]]], *, channels: Sequence[int] = (1,)
) -> list[Candidate]:
    """Every all-reduce that needs no groups, on the orders that ``orders`` has for it: algorithm -> name -> hosts.

    Trees also in chunks, so that their levels work at once.
    """
    made: list[Candidate] = []
    for algorithm, known in ALGORITHMS.items():
        if known.scatters:
            continue
        seen: set[tuple[str, ...]] = set()
        for name, order in orders.get(algorithm, {}).items():
            if tuple(order) in seen:
                continue
            seen.add(tuple(order))
            chunks = (None, *TREE_CHUNKS) if algorithm in TREES else (None,)
            made += [
                Candidate(
                    algorithm=algorithm,
                    order=tuple(order),
                    order_name=name,
                    chunk_bytes=chunk,
                    channels=count,
                )
                for count in channels
                for chunk in chunks
            ]
    return made


def with_shares(
    name: str, groups: Sequence[Sequence[str]], order: Sequence[str], capacity: Capacity | None
) -> Groups:
    """``groups`` of host names as ranks of ``order``; masters shared by what hosts and uplinks carry, where known.

    The uplink of a part of a measured group counts with its share of the hosts, that of several with their sum.
    """
    place = {host: rank for rank, host in enumerate(order)}
    ranks = tuple(tuple(place[host] for host in members) for members in groups)
    if capacity is None:
        return Groups(name=name, ranks=ranks)
    rates = pooled_rates(capacity.resources)
    own = [min(rates[f"tx:{host}"], rates[f"rx:{host}"]) for host in order]
    group_of = {host: group for group in capacity.groups for host in group.hosts}
    uplinks = []
    for members in groups:
        crossed = {group_of[host].id: group_of[host] for host in members}
        total = 0.0
        for group in crossed.values():
            ends = [rates.get(f"{kind}:{group.id}") for kind in ("up", "down")]
            known = [end for end in ends if end is not None]
            part = sum(host in set(members) for host in group.hosts) / len(group.hosts)
            total += part * min(known) if known and len(group.hosts) > 1 else math.inf
        uplinks.append(total if len(groups) > 1 else math.inf)
    shares, others = (
        master_shares(ranks, own, uplinks, SHARES_SLACK, spares=spares) for spares in (True, False)
    )
    return Groups(name=name, ranks=ranks, shares=shares, others=None if others == shares else others)


def distinct(
    candidates: Sequence[Candidate], size_bytes: int, keep: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Each schedule of a size once: chunk sizes that cut it into equally many count once, too small ones not at all."""
    made: dict[tuple[object, ...], Candidate] = {}
    for one in (*keep, *candidates):
        pieces = one.pieces(size_bytes)
        if pieces > _most(MOST_PIECES, len(one.order)) and one not in keep:
            continue
        made.setdefault((one.algorithm, one.order, one.groups, pieces, one.channels), one)
    return list(made.values())


def coarse(candidates: Sequence[Candidate], size_bytes: int) -> list[Candidate]:
    """Of each label those that cut a buffer into few pieces: fewer than COARSE_PIECES, or the fewest there are."""
    least: dict[str, int] = {}
    for one in candidates:
        pieces = one.pieces(size_bytes)
        least[one.label] = min(pieces, least.get(one.label, pieces))
    return [
        one
        for one in candidates
        if one.pieces(size_bytes) <= max(_most(COARSE_PIECES, len(one.order)), least[one.label])
    ]


def _most(pieces: int, hosts: int) -> int:
    """Chunks to choose among: fewer for more than MANY_HOSTS, so that transfers do not grow with their number."""
    return max(hosts, min(pieces, pieces * MANY_HOSTS // hosts)) if hosts > MANY_HOSTS else pieces
