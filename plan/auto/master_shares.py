"""How much of the buffer each host of 2LHA adds up: the fullest link is then as little full as can be.

Of a buffer of one byte a group with the share x of the global masters sends 1 + (G - 2) x over its uplink, and
receives as much: its global masters hand sums to the G - 1 other groups, and its local masters send the rest, 1 - x.
A host that is master of the share w of its group's chunks receives 1 + w (n - 1 + (G - 2) x): its own result, what
the n - 1 others hand it, and what crosses. Both loads over what the links carry are a time, and the largest of them is
least where as many as possible are equal; which is found by bisection on that time. (Luo 2020, section 4.2.2, shares
masters in proportion to the sizes of groups: what follows where all links carry the same.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_HALVINGS = 100
_NEAR = 1e-12
_FULL = 1e-9
"""A share, or room in buffers, that is nothing but rounding."""


@dataclass(frozen=True, kw_only=True)
class MasterShares:
    """``groups`` (G,) shares of the global masters, ``hosts`` (N,) of the masters inside each group; each sums to 1.

    ``time_s_per_byte`` is the load of the fullest link over what it carries, for a buffer of one byte.
    """

    groups: tuple[float, ...]
    hosts: tuple[float, ...]
    time_s_per_byte: float


def master_shares(
    groups: Sequence[Sequence[int]],
    hosts: Sequence[float],
    uplinks: Sequence[float],
    slack: float = 0.0,
    *,
    spares: bool = True,
) -> MasterShares:
    """The shares for ``groups`` of ranks 0 to N - 1, whose hosts carry ``hosts`` (N,) and uplinks ``uplinks`` (G,).

    Capacities are bytes a second, above 0, inf for what never limits. Where links have room to spare, shares are in
    proportion to the sizes of groups, and equal inside them: ``slack`` counts as such room, a share of the least time.
    Links that are all as full as they can be wait for each other, and readings are not exact. A link that its own
    sums fill, or fill but for less than the slack adds, gets no masters for all that: they would wait for it. Without
    ``spares`` its group takes its part as far as there is slack. Raises ValueError for a capacity that is not above 0.
    """
    own = [np.array([float(hosts[rank]) for rank in members]) for members in groups]
    links = np.array([float(up) for up in uplinks])
    if not all((rates > 0).all() for rates in (*own, links)):
        raise ValueError("a capacity is not above 0")
    if all(np.isinf(rates).all() for rates in (*own, links)):
        time = 0.0
    else:
        time = _least_time(own, links)
    least, time = time, time * (1 + slack)
    sizes = np.array([float(len(members)) for members in groups])
    rooms = [np.where(_room(rates, least) > _FULL, _room(rates, time), 0.0) for rates in own]
    most_of = _most_of_groups(own, links, time, rooms)
    if spares:
        most_of = np.where(_spared(_most_of_groups(own, links, least), most_of), most_of, 0.0)
    shares = _filled(most_of, sizes)
    made = [0.0] * sum(map(len, groups))
    crossing = len(groups) - 2
    for members, room, share in zip(groups, rooms, shares):
        need = len(members) - 1 + crossing * share
        most = np.ones(len(members)) if need <= 0 else np.minimum(room / need, 1.0)
        for rank, part in zip(members, _filled(most, np.ones(len(members)))):
            made[rank] = float(part)
    return MasterShares(groups=tuple(float(x) for x in shares), hosts=tuple(made), time_s_per_byte=least)


def _least_time(own: Sequence[Floats], links: Floats) -> float:
    """Seconds a byte such that the groups can take all global masters between them, and no less."""
    rates = np.concatenate([*own, links])
    low = 1.0 / float(rates.min())
    high = low * 4 * (len(own) + max(map(len, own)))
    if _fits(own, links, low):
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _fits(own, links, middle) else (middle, high)
    return high


def _fits(own: Sequence[Floats], links: Floats, time: float) -> bool:
    most = _most_of_groups(own, links, time)
    return bool((most >= 0).all()) and float(most.sum()) >= 1.0


def _most_of_groups(
    own: Sequence[Floats], links: Floats, time: float, rooms: Sequence[Floats] | None = None
) -> Floats:
    """(G,) the largest share of the global masters that each group can have in ``time``; below 0 where it has none.

    ``rooms``: what the hosts of each group may receive besides their own results, where that is less than what fits.
    """
    crossing = len(own) - 2
    made = []
    for rates, link, room_of in zip(own, links, rooms or [_room(rates, time) for rates in own]):
        inside = float(room_of.sum()) - (len(rates) - 1) - min(crossing, 0)
        room = min(inside, time * link - 1.0 if np.isfinite(link) else np.inf)
        finite = rates[np.isfinite(rates)]
        if room < -_NEAR or (time * finite < 1.0 - _NEAR).any():
            made.append(-1.0)
        else:
            made.append(1.0 if crossing <= 0 else min(1.0, max(room, 0.0) / crossing))
    return np.array(made)


def _spared(room: Floats, wide: Floats) -> NDArray[np.bool_]:
    """(G,) the groups that have room for global masters in the least time, and more than slack alone gives them.

    ``room`` (G,) is the share that each can have in the least time, ``wide`` (G,) that with slack. Where a slow host's
    own sums are what the least time is, a group that has room by an error of a reading only is as full as one that has
    none: its masters would be waited for. Otherwise the others have not room enough for all masters in the least time,
    and whatever has room at all is needed.
    """
    spared = room > np.maximum(_FULL, wide - np.maximum(room, 0.0))
    return spared if float(room[spared].sum()) >= 1.0 else room > _FULL


def _room(rates: Floats, time: float) -> Floats:
    """What each host can receive besides its own result, in ``time``, for a buffer of one byte."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(rates), np.inf, np.maximum(time * rates - 1.0, 0.0))


def _filled(most: Floats, weights: Floats) -> Floats:
    """Shares that sum to 1, in proportion to ``weights`` as far as none is above ``most``."""
    most = np.clip(most, 0.0, 1.0)
    if float(most.sum()) <= 1.0:
        whole = most if most.sum() > 0 else weights
        return np.asarray(whole / whole.sum())
    low, high = 0.0, 1.0 / float(weights[weights > 0].min())
    while float(np.minimum(most, high * weights).sum()) < 1.0:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.minimum(most, middle * weights).sum()) < 1.0 else (low, middle)
    shares = np.minimum(most, high * weights)
    return np.asarray(shares / shares.sum())
