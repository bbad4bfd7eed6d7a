"""Which hosts average in each iteration of divide-and-shuffle synchronisation."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from netprobe.plan.ds_sync.consensus import Consensus, is_connected, prove

SPLIT_FROM = 4
"""Hosts of a rack from which a contended host gets a group of two: a leader, the two, and one more remain."""


@dataclass(frozen=True)
class Iteration:
    """Groups that hold every host once, and the leaders among them, who average across racks."""

    groups: tuple[tuple[int, ...], ...]
    leaders: tuple[int, ...]


@dataclass(frozen=True)
class _Fleet:
    racks: tuple[tuple[int, ...], ...]
    contended_racks: tuple[int, ...]
    contended_hosts: frozenset[int]

    @property
    def regular(self) -> list[int]:
        return [rack for rack in range(len(self.racks)) if rack not in self.contended_racks]

    def candidates(self, rack: int) -> list[int]:
        """Who may lead: hosts that are not contended, unless all of the rack are."""
        hosts = self.racks[rack]
        return [host for host in hosts if host not in self.contended_hosts] or list(hosts)


def choose_pattern(
    sizes: Sequence[int], contended_racks: Collection[int] = (), contended_hosts: Collection[int] = ()
) -> tuple[tuple[Iteration, ...], Consensus]:
    """The pattern that mixes fastest an iteration, among the clocks for partners, with its proof.

    Hosts count from 0, rack after rack of ``sizes``. Where leaders in turn never mix all hosts (racks of two),
    iterations alternate with averages of whole racks. Where every rack is contended, none counts as such.
    ValueError: fewer than two racks, an empty rack, or a contended rack or host that does not exist.
    """
    fleet = _fleet(sizes, contended_racks, contended_hosts)
    hosts = sum(sizes)
    best: tuple[tuple[Iteration, ...], Consensus] | None = None
    for whole in (False, True):
        for slow in (False, True) if fleet.contended_racks else (False,):
            pattern = _pattern(fleet, slow, whole)
            groups = [iteration.groups for iteration in pattern]
            if not is_connected(groups, hosts):
                continue
            proof = prove(groups, hosts)
            if best is None or proof.rho_per_iteration < best[1].rho_per_iteration:
                best = pattern, proof
        if best is not None:
            return best
    raise ValueError("no pattern mixes all hosts")


def _fleet(sizes: Sequence[int], racks: Collection[int], hosts: Collection[int]) -> _Fleet:
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(f"two racks or more are needed, each of one host or more, not {list(sizes)}")
    if any(not 0 <= rack < len(sizes) for rack in racks):
        raise ValueError(f"contended racks must be among 0 to {len(sizes) - 1}")
    if any(not 0 <= host < sum(sizes) for host in hosts):
        raise ValueError(f"contended hosts must be among 0 to {sum(sizes) - 1}")
    starts = [sum(sizes[:rack]) for rack in range(len(sizes))]
    members = tuple(tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True))
    chosen = tuple(sorted(set(racks)))
    return _Fleet(members, () if len(chosen) == len(sizes) else chosen, frozenset(hosts))


def _pattern(fleet: _Fleet, slow: bool, whole: bool) -> tuple[Iteration, ...]:
    turns = max(len(rack) for rack in fleet.racks)
    regular, contended = len(fleet.regular), len(fleet.contended_racks)
    partners = 1 if not contended else regular * (contended if contended > regular else 1)
    length = turns * partners if slow else math.lcm(turns, partners)
    result: list[Iteration] = []
    for turn in range(length):
        if whole:
            result.append(Iteration(fleet.racks, ()))
        result.append(_iteration(fleet, turn, turn // turns if slow else turn))
    return tuple(result)


def _iteration(fleet: _Fleet, turn: int, clock: int) -> Iteration:
    """Leaders' groups first, then each rack's others; ``clock`` chooses the partners of contended racks."""
    across = [list(group) for group in _across(fleet, clock)]
    leader = {
        rack: fleet.candidates(rack)[turn % len(fleet.candidates(rack))] for group in across for rack in group
    }
    groups = [tuple(leader[rack] for rack in group) for group in across]
    for rack, hosts in enumerate(fleet.racks):
        groups += _within(fleet, [host for host in hosts if host != leader.get(rack)], len(hosts), turn)
    return Iteration(tuple(groups), tuple(leader.values()))


def _across(fleet: _Fleet, clock: int) -> list[list[int]]:
    """Groups of racks whose leaders average: a contended rack with one partner, the other racks together."""
    regular, contended = fleet.regular, fleet.contended_racks
    paired = min(len(regular), len(contended))
    groups: list[list[int]] = []
    for place in range(paired):
        rack = contended[(place + clock // len(regular)) % len(contended)]
        groups.append([rack, regular[(place + clock) % len(regular)]])
    taken = {rack for group in groups for rack in group}
    others = [rack for rack in regular if rack not in taken]
    return [*groups, others] if len(others) > 1 else groups


def _within(fleet: _Fleet, others: list[int], size: int, turn: int) -> list[tuple[int, ...]]:
    """A rack's hosts without its leader: contended ones in twos where the rack is large enough, then the rest."""
    weak = [host for host in others if host in fleet.contended_hosts]
    strong = [host for host in others if host not in fleet.contended_hosts]
    pairs = min(len(weak), len(strong) - 1) if size >= SPLIT_FROM else 0
    groups: list[tuple[int, ...]] = []
    for place in range(max(pairs, 0)):
        host, partner = weak[(place + turn) % len(weak)], strong[(place + turn // size) % len(strong)]
        groups.append((host, partner))
    taken = {host for group in groups for host in group}
    rest = tuple(host for host in others if host not in taken)
    return [*groups, rest] if rest else groups
