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
    candidates: list[tuple[float, Clock, list[Iteration]]] = []
    for clock in CLOCKS if slow or busy else CLOCKS[:1]:
        # Clocks of waiting racks are tried only where the first mixes nothing.
        if candidates and clock[2:] != CLOCKS[0][2:]:
            break
        pattern = _shortest(racks, slow, busy, clock)
        if pattern is not None:
            candidates.append((rho_of(pattern, len(hosts)) ** (1 / len(pattern)), clock, pattern))
    if not candidates:
        raise ValueError("no pattern of these racks mixes all hosts")
    return min(candidates, key=lambda one: one[:2])[2]


def _busy(rack: Sequence[int], contended: Collection[int]) -> set[int]:
    """The contended hosts of a rack; where all are, none is."""
    found = set(rack) & set(contended)
    return found if len(found) < len(rack) else set()


def _shortest(
    racks: Sequence[Sequence[int]], slow: set[int], busy: set[int], clock: Clock
) -> list[Iteration] | None:
    """The pattern of one clock, once every host that can be has been leader and all have mixed."""
    turns = [
        len([h for h in rack if h not in busy]) * (2 if _alternates(rack, busy) else 1) for rack in racks
    ]
    length = max(max(turns), len(racks) if slow else 1)
    size = sum(map(len, racks))
    while length <= MOST_LENGTH:
        pattern = [_iteration(racks, slow, busy, clock, t) for t in range(length)]
        if joins_all(pattern, size):
            return pattern
        length += max(1, length // 4)
    return None


def _iteration(
    racks: Sequence[Sequence[int]], slow: set[int], busy: set[int], clock: Clock, t: int
) -> Iteration:
    regular = [c for c in range(len(racks)) if c not in slow and not _stays(racks[c], busy, t)]
    waiting = sorted(c for c in slow if not _stays(racks[c], busy, t))
    # Contended racks beyond the partners take turns.
    count, turn = len(waiting), _turn(clock[:2], t)
    paired = (
        waiting
        if count <= len(regular)
        else [waiting[(_turn(clock[2:], t) * len(regular) + i) % count] for i in range(len(regular))]
    )
    partner = {c: regular[(turn + i) % len(regular)] for i, c in enumerate(paired)}
    sends = [*regular, *paired] if len(regular) + len(paired) > 1 else []
    leader = {c: _leader(racks[c], busy, t) for c in sends}
    groups = [sorted((leader[c], leader[p])) for c, p in partner.items()] if sends else []
    rest = sorted(leader[c] for c in regular if c not in partner.values()) if sends else []
    groups += [rest] if rest else []
    for c, rack in enumerate(racks):
        if _stays(rack, busy, t):
            groups.append(sorted(rack))
            continue
        groups += _inside([h for h in rack if h != leader.get(c)], len(rack), busy, turn)
    return Iteration(tuple(map(tuple, groups)), tuple(leader[c] for c in sorted(leader)))


def _turn(clock: Clock, t: int) -> int:
    faster, slower = clock
    return faster * t + (t // slower if slower else 0)


def _alternates(rack: Sequence[int], busy: set[int]) -> bool:
    """Whether a rack averages at home in every second iteration: one whose leader would never meet the others."""
    return len(rack) == 2 or (len(rack) > 1 and len([host for host in rack if host not in busy]) == 1)


def _stays(rack: Sequence[int], busy: set[int], t: int) -> bool:
    return _alternates(rack, busy) and t % 2 == 1


def _leader(rack: Sequence[int], busy: set[int], t: int) -> int:
    able = [host for host in rack if host not in busy]
    return able[(t // 2 if _alternates(rack, busy) else t) % len(able)]


def _inside(members: list[int], size: int, busy: set[int], turn: int) -> list[list[int]]:
    """The groups inside a rack of ``size`` hosts, of which ``members`` are at home."""
    if not members:
        return []
    slow = [host for host in members if host in busy] if size >= SPLIT_FROM else []
    free = [host for host in members if host not in slow]
    groups = []
    for number, host in enumerate(slow):
        if len(free) < 2:
            free.append(host)
            continue
        groups.append(sorted((host, free.pop((turn + number) % len(free)))))
    return [*groups, sorted(free)]
