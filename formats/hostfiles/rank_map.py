"""A rank map as JSON: which host, and which place on it, each rank has. For programs that start ranks themselves.

``hosts`` holds the hosts, node rank 0 first, and ``ranks`` the ranks, rank 0 first; what follows from the other is
written out all the same, so that a reader needs no arithmetic.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, MAX_SLOTS, Host, check_hosts, make_host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import MAX_RANKS, launcher_names, places_of, slots_of

VERSION = 1
ORDER = (
    "whoever starts the ranks keeps it by giving each the rank (and local rank) of this map; no launcher reads it, "
    "and each has its own order otherwise"
)


def write_rank_map(hosts: Sequence[Host], *, slots: int | None = None, by_node: bool = False) -> str:
    """The map for ``hosts`` in rank order; a host's ranks are neighbours, or round-robin ``by_node``, which is not read
    back. Raises InputError."""
    check_hosts(hosts)
    launcher_names(hosts)
    counts = slots_of(hosts, slots)
    places = [(hosts[at], local) for at, local in places_of(counts, by_node=by_node)]
    entries = [
        {
            "host": host.name,
            "launcher_name": host.launcher_name,
            "address": host.address,
            "node_rank": at,
            "slots": count,
        }
        for at, (host, count) in enumerate(zip(hosts, counts))
    ]
    ranks = [
        {"rank": rank, "host": host.name, "local_rank": local} for rank, (host, local) in enumerate(places)
    ]
    head = {"rank_map": VERSION, "order": ORDER, "world_size": len(places)}
    # One line per host and one line per rank: for people, and for diff.
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    for key, items, end in (("hosts", entries, ","), ("ranks", ranks, "")):
        lines += [f'  "{key}": [', ",\n".join(f"    {json.dumps(item)}" for item in items), f"  ]{end}"]
    return "\n".join(["{", *lines, "}"]) + "\n"


def read_rank_map(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a rank map, with their slots. Raises HostsError where its two lists do not agree."""
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise HostsError("is not JSON", source=source) from None
    if not isinstance(data, dict) or data.get("rank_map") != VERSION:
        raise HostsError(f"is not a rank map of version {VERSION}", source=source)
    entries, ranks = (_objects(data, key, most, source) for key, most in _SIZES.items())
    hosts: list[Host] = []
    places: list[tuple[str, int]] = []
    for entry in entries:
        name, count = entry.get("host"), entry.get("slots")
        if not isinstance(name, str) or type(count) is not int or not 1 <= count <= MAX_SLOTS:
            raise HostsError(f"hosts[{len(hosts)}] has no host and slots", source=source)
        known = {k: entry[k] for k in ("launcher_name", "address") if entry.get(k) is not None}
        hosts.append(make_host(name, source=source, slots=count, **known))
        if len(places) + count > len(ranks):
            raise HostsError(f"has {len(ranks)} ranks, and its hosts have more slots", source=source)
        places += [(name, local) for local in range(count)]
    stated = [(r.get("rank"), r.get("host"), r.get("local_rank")) for r in ranks]
    if stated != [(rank, *place) for rank, place in enumerate(places)]:
        raise HostsError("its ranks are not those of its hosts' slots in order", source=source)
    return check_hosts(hosts, source=source)


_SIZES = {"hosts": MAX_HOSTS, "ranks": MAX_RANKS}


def _objects(data: dict[str, Any], key: str, most: int, source: str | None) -> list[dict[str, Any]]:
    items = data.get(key)
    if not isinstance(items, list) or len(items) > most or not all(isinstance(item, dict) for item in items):
        raise HostsError(f"its {key!r} is not a list of up to {most} objects", source=source)
    return items


FORMAT = Format(
    name="json",
    summary="rank map: host, rank and local rank",
    write=write_rank_map,
    write_by_node=partial(write_rank_map, by_node=True),
    read=read_rank_map,
    order=ORDER,
    file="ranks.json",
)
