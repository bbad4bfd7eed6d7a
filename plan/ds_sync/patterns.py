"""Who averages with whom: the paper's initGroups and adjustGroups (section III-B), with their holes closed.

In each iteration every rack sends one host, its leader, to the group between racks; the others average inside the
rack. The hosts of a rack take turns as leader. A contended uplink's leader meets one leader of a regular rack only,
another one each time, while the other leaders form the large group. A contended host is never leader, and averages
with one other host of its rack, another one each time, where the rack is large enough.

Closed, against the paper: in a rack of two, or with one host that can be leader, the leader never meets the others, so
that in every second iteration the rack averages and sends nobody. Contended racks beyond the regular ones take turns,
and stay at home otherwise. Where all racks are contended, or all hosts of a rack, none is. The partner's clock is the
one that mixes fastest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from netprobe.plan.ds_sync.consensus import joins_all, rho_of

SPLIT_FROM = 4
"""Hosts of a rack from which a contended one gets a pair of its own: a leader, the pair, and one more at least."""
MOST_LENGTH = 256
CLOCKS = tuple(
    (*partner, *waiting)
    for waiting in ((1, 0), (1, 2), (1, 3))
    for partner in ((1, 0), (1, 2), (1, 3), (2, 3), (0, 2), (1, 5), (3, 2))
)
"""How partners, and waiting racks, change in iteration t: by a t + t // b (b 0: by a t). Other turns have clocks of
their own, and where two clocks fall together the same hosts meet for ever."""
Clock = tuple[int, ...]


@dataclass(frozen=True)
class Iteration:
    """Averaging groups, which hold each host once, and the leaders (hosts) in ascending order of their racks."""

    groups: tuple[tuple[int, ...], ...]
    leaders: tuple[int, ...]


@dataclass(frozen=True)
class _Fleet:
    """Racks, which of them are contended, and the contended hosts; and of each rack what every iteration needs."""

    racks: Sequence[Sequence[int]]
    slow: set[int]
    busy: set[int]
    able: list[list[int]]
    """Its hosts that can be leader."""
    alternates: list[bool]
    """Whether it averages at home in every second iteration: one whose leader would never meet the others."""

    @classmethod
    def of(cls, racks: Sequence[Sequence[int]], slow: set[int], busy: set[int]) -> _Fleet:
        able = [[host for host in rack if host not in busy] for rack in racks]
        alternates = [
            len(rack) == 2 or (len(rack) > 1 and len(leaders) == 1) for rack, leaders in zip(racks, able)
        ]
        return cls(racks, slow, busy, able, alternates)

    def stays(self, rack: int, t: int) -> bool:
        return self.alternates[rack] and t % 2 == 1

    def leader(self, rack: int, t: int) -> int:
        able = self.able[rack]
        return able[(t // 2 if self.alternates[rack] else t) % len(able)]


def make_pattern(
    racks: Sequence[Sequence[int]],
    contended_racks: Collection[int] = (),
    contended_hosts: Collection[int] = (),
) -> list[Iteration]:
    """A period of iterations for ``racks`` of hosts (each of 0 to N - 1 once), after which averages have spread.

    ``contended_racks`` are places in ``racks``. Raises ValueError for racks that are no partition.
    """
    hosts = sorted(host for rack in racks for host in rack)
    if hosts != list(range(len(hosts))) or not hosts or any(not rack for rack in racks):
        raise ValueError("racks must hold each host once, and none may be empty")
    if len(racks) == 1:
        return [Iteration((tuple(sorted(racks[0])),), (min(racks[0]),))]
    slow = set(contended_racks) if len(set(contended_racks)) < len(racks) else set()
    busy = {host for rack in racks for host in _busy(rack, contended_hosts)}
    fleet = _Fleet.of(racks, slow, busy)
    candidates: list[tuple[float, Clock, list[Iteration]]] = []
    for clock in CLOCKS if slow or busy else CLOCKS[:1]:
        # Clocks of waiting racks are tried only where the first mixes nothing.
        if candidates and clock[2:] != CLOCKS[0][2:]:
            break
        pattern = _shortest(fleet, clock)
        if pattern is not None:
            candidates.append((rho_of(pattern, len(hosts)) ** (1 / len(pattern)), clock, pattern))
    if not candidates:
        raise ValueError("no pattern of these racks mixes all hosts")
    return min(candidates, key=lambda one: one[:2])[2]


def _busy(rack: Sequence[int], contended: Collection[int]) -> set[int]:
    """The contended hosts of a rack; where all are, none is."""
    found = set(rack) & set(contended)
    return found if len(found) < len(rack) else set()


def _shortest(fleet: _Fleet, clock: Clock) -> list[Iteration] | None:
    """The pattern of one clock, once every host that can be has been leader and all have mixed."""
    turns = [len(able) * (2 if alternates else 1) for able, alternates in zip(fleet.able, fleet.alternates)]
    length = max(max(turns), len(fleet.racks) if fleet.slow else 1)
    size = sum(map(len, fleet.racks))
    pattern: list[Iteration] = []
    while length <= MOST_LENGTH:
        pattern += [_iteration(fleet, clock, t) for t in range(len(pattern), length)]
        if joins_all(pattern, size):
            return pattern
        length += max(1, length // 4)
    return None


def _iteration(fleet: _Fleet, clock: Clock, t: int) -> Iteration:
    racks, slow, busy = fleet.racks, fleet.slow, fleet.busy
    regular = [c for c in range(len(racks)) if c not in slow and not fleet.stays(c, t)]
    waiting = sorted(c for c in slow if not fleet.stays(c, t))
    # Contended racks beyond the partners take turns.
    count, turn = len(waiting), _turn(clock[:2], t)
    paired = (
        waiting
        if count <= len(regular)
        else [waiting[(_turn(clock[2:], t) * len(regular) + i) % count] for i in range(len(regular))]
    )
    partner = {c: regular[(turn + i) % len(regular)] for i, c in enumerate(paired)}
    sends = [*regular, *paired] if len(regular) + len(paired) > 1 else []
    leader = {c: fleet.leader(c, t) for c in sends}
    groups = [sorted((leader[c], leader[p])) for c, p in partner.items()] if sends else []
    partners = set(partner.values())
    rest = sorted(leader[c] for c in regular if c not in partners) if sends else []
    groups += [rest] if rest else []
    for c, rack in enumerate(racks):
        if fleet.stays(c, t):
            groups.append(sorted(rack))
            continue
        sent = leader.get(c)
        groups += _inside([h for h in rack if h != sent], len(rack), busy, turn)
    return Iteration(tuple(map(tuple, groups)), tuple(leader[c] for c in sorted(leader)))


def _turn(clock: Clock, t: int) -> int:
    faster, slower = clock
    return faster * t + (t // slower if slower else 0)


def _inside(members: list[int], size: int, busy: set[int], turn: int) -> list[list[int]]:
    """The groups inside a rack of ``size`` hosts, of which ``members`` are at home."""
    if not members:
        return []
    slow = [host for host in members if host in busy] if busy and size >= SPLIT_FROM else []
    if not slow:
        return [sorted(members)]
    free = [host for host in members if host not in slow]
    groups = []
    for number, host in enumerate(slow):
        if len(free) < 2:
            free.append(host)
            continue
        groups.append(sorted((host, free.pop((turn + number) % len(free)))))
    return [*groups, sorted(free)]
