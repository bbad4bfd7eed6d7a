"""Bundles of a Ray placement group, out: one per rank, each tied to its host by the resource that Ray gives every node.

Source: Ray's documentation of placement groups, whose bundles have indices, and of the resource ``node:ADDRESS``, of
which a node has 1. Not tried here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, check_hosts, is_ip_address
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import launcher_names, places_of, slots_of

SHARE = 0.001
"""Of a node's own resource that each bundle takes, so that a node holds a thousand of them."""
ORDER = (
    "Ray keeps it where rank r's actor is started with PlacementGroupSchedulingStrategy(placement_group(bundles), "
    "placement_group_bundle_index=r); add GPU or CPU to each bundle, since Ray gives an actor no more than its bundle "
    "has. Ray Train numbers its workers itself, host by host. Not tried"
)


def write_ray_bundles(hosts: Sequence[Host], *, slots: int | None = None, by_node: bool = False) -> str:
    """``bundles`` and ``ranks``, rank 0 first. Raises InputError for a host whose IP address is not known."""
    launcher_names(check_hosts(hosts))
    for host in hosts:
        if host.address is None or not is_ip_address(host.address):
            raise InputError(
                f"Ray knows nodes by IP address, and that of {host.name!r} is not known: give it an address="
            )
    counts = slots_of(hosts, slots)
    most = round(1 / SHARE)
    if max(counts) > most:
        raise InputError(
            f"{max(counts)} ranks on one host: a Ray node takes at most {most} bundles of this kind"
        )
    places = places_of(counts, by_node=by_node)
    bundles = [{f"node:{hosts[at].address}": SHARE} for at, _ in places]
    ranks = [
        {"rank": rank, "host": hosts[at].name, "local_rank": local} for rank, (at, local) in enumerate(places)
    ]
    lines = [f'  "order": {json.dumps(ORDER)},']
    for key, items, end in (("bundles", bundles, ","), ("ranks", ranks, "")):
        lines += [f'  "{key}": [', ",\n".join(f"    {json.dumps(item)}" for item in items), f"  ]{end}"]
    return "\n".join(["{", *lines, "}"]) + "\n"


FORMAT = Format(
    name="ray",
    summary="bundles of a Ray placement group, one per rank",
    write=write_ray_bundles,
    write_by_node=partial(write_ray_bundles, by_node=True),
    order=ORDER,
    file="ray.json",
)
