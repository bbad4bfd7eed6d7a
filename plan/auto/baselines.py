"""Groups that 2LHA is compared with: balanced at random, and those of the truth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from netprobe.core.errors import InputError


def balanced_random_groups(hosts: Sequence[str], k: int, seed: int = 0) -> list[list[str]]:
    """``hosts`` in ``k`` groups at random, whose sizes differ by one at most: balanced random 2LHA.

    Raises InputError for fewer than 1 group, or more groups than hosts.
    """
    if not 1 <= k <= len(hosts):
        raise InputError(f"{k} groups of {len(hosts)} hosts: 1 to {len(hosts)} are possible")
    mixed = list(hosts)
    random.Random(seed).shuffle(mixed)
    place = {name: i for i, name in enumerate(hosts)}
    return [sorted(mixed[i::k], key=place.__getitem__) for i in range(k)]


def truth_guided_groups(hosts: Sequence[str], rack_of: Mapping[str, str]) -> list[list[str]]:
    """``hosts`` by their racks, as a truth has them: truth-guided 2LHA. Raises InputError for a host without a rack."""
    groups: dict[str, list[str]] = {}
    for name in hosts:
        if name not in rack_of:
            raise InputError(
                f"the truth has no rack for host {name!r}: it must have one for each host with a rank"
            )
        groups.setdefault(rack_of[name], []).append(name)
    return list(groups.values())
