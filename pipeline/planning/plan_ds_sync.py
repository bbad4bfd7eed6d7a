"""From a map's groups and the named contention to a pattern of divide-and-shuffle synchronisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netprobe.core.documents.map import Map
from netprobe.core.errors import InputError
from netprobe.plan.ds_sync import choose_pattern


def plan_ds_sync(document: Map, contended: Sequence[str] = ()) -> dict[str, Any]:
    """The pattern and its rates; ``contended`` holds ``group:NAME`` and ``host:NAME``.

    InputError: fewer than two groups, or a name that is not on the map.
    """
    groups = document.groups
    if len(groups) < 2:
        raise InputError(
            f"the map has {len(groups)} group; divide-and-shuffle needs two or more: plan order suits one"
        )
    hosts = [host for group in groups for host in group.hosts]
    numbers = {
        "group": {group.id: number for number, group in enumerate(groups)},
        "host": {host: number for number, host in enumerate(hosts)},
    }
    chosen: dict[str, set[int]] = {"group": set(), "host": set()}
    for given in contended:
        kind, _, name = given.partition(":")
        if kind not in numbers:
            raise InputError(f"--contended {given!r} is neither group:NAME nor host:NAME")
        if name not in numbers[kind]:
            raise InputError(f"--contended {given!r}: the map's groups have no {kind} {name!r}")
        chosen[kind].add(numbers[kind][name])
    pattern, proof = choose_pattern([len(group.hosts) for group in groups], chosen["group"], chosen["host"])
    return {
        "pattern": [
            {
                "groups": [[hosts[host] for host in group] for group in iteration.groups],
                "leaders": [hosts[leader] for leader in iteration.leaders],
            }
            for iteration in pattern
        ],
        "pattern_length": len(pattern),
        "rho": proof.rho,
        "norm": proof.norm,
        "rho_per_iteration": proof.rho_per_iteration,
        "iterations_to_1e3": proof.iterations_to_1e3,
        "left_out": sorted(document.unplaced),
        "all_contended": len(chosen["group"]) == len(groups),
    }
