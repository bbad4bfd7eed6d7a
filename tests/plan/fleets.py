"""Made-up fleets for the solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netprobe.core.documents.map import Group
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.hosts import Host, make_host
from netprobe.plan import HeldOutReadings, Links, OrderRequest, build_order_plan


def rack_fleet(
    sizes: Sequence[int], seed: int, noise: float = 0.05, directed: bool = False
) -> tuple[FloatMatrix, list[int]]:
    """One-way seconds and the rack of each host, shuffled: 50 us inside a rack and 150 us between racks."""
    rng = np.random.default_rng(seed)
    rack = np.repeat(np.arange(len(sizes)), sizes)
    rng.shuffle(rack)
    base = np.where(rack[:, None] == rack[None, :], 50e-6, 150e-6)
    cost = base * np.exp(rng.normal(0, noise, base.shape))
    if not directed:
        cost = (cost + cost.T) / 2
    np.fill_diagonal(cost, 0.0)
    return cost, rack.tolist()


def named(count: int) -> list[Host]:
    """Hosts n1, n2, ... (n10 after n9 in natural order only)."""
    return [make_host(f"n{i + 1}") for i in range(count)]


def groups_of(hosts: Sequence[Host], rack: Sequence[int]) -> list[Group]:
    """The racks as groups."""
    groups = []
    for number in sorted(set(rack)):
        names = [host.name for host, its in zip(hosts, rack) if its == number]
        groups.append(Group(id=f"g{number}", hosts=names, leader=names[0]))
    return groups


def order_plan(
    hosts: Sequence[Host],
    cost: FloatMatrix,
    groups: Sequence[Group] = (),
    *,
    beta_s_per_byte: FloatMatrix | None = None,
    size_bytes: int | None = None,
    readings: HeldOutReadings | None = None,
    **request: Any,
) -> OrderPlan:
    """The plan for ``hosts`` on one-way seconds ``cost``; ``request`` holds fields of an `OrderRequest`."""
    links = Links(alpha_s=cost, beta_s_per_byte=beta_s_per_byte, size_bytes=size_bytes)
    return build_order_plan(OrderRequest(hosts=hosts, groups=groups, **request), links, readings)
