"""dssync: DS-Sync's published communication times and its model's (paper); rates of patterns (sample, grid)."""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator, Sequence

import numpy as np

from netprobe.plan.ds_sync.consensus import check_pattern, rho_of
from netprobe.plan.ds_sync.costs import Rates, all_reduce_time_s, hierarchical_time_s, pattern_time_s
from netprobe.plan.ds_sync.patterns import make_pattern

SCENARIOS = {
    "V: nothing contended": ((4, 4), False, ()),
    "IV: uplinks contended": ((4, 4), True, ()),
    "III: uplinks and host 4 contended": ((5, 3), True, (4,)),
}
"""Hosts of the racks, whether the uplinks are contended, and the contended hosts (section V-A5)."""
PUBLISHED_MS = {
    "CIFAR-10": ((266.1, 390.8, 200.1), (525.1, 515.3, 331.7), (540.1, 790.2, 338.1)),
    "CIFAR-100": ((271.3, 395.1, 198.1), (531.6, 523.5, 336.1), (545.6, 801.5, 341.8)),
    "ImageNet": ((441.0, 506.6, 249.2), (823.1, 685.2, 407.4), (825.7, 1078.2, 412.5)),
    "SQuAD": ((1631.8, 2233.4, 1060.2), (3129.3, 2801.5, 1633.4), (3260.7, 4213.2, 1636.6)),
}
"""All-reduce, hierarchical all-reduce and DS-Sync of tables V, IV and III."""
CONTENDED = 0.5
"""What another task leaves of a link: the paper says that two tasks share it."""
SIZE_BYTES = 1 << 30
COUNTS = (0, 1, 2)


def main() -> None:
    """Print the tables of ``--part``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--part", choices=("paper", "sample", "grid"), action="append", help="sample, and paper"
    )
    parser.add_argument("--racks", default="2-8", help="racks of the grid")
    parser.add_argument("--hosts", default="1-6", help="hosts of its racks")
    parser.add_argument("--fleets", type=int, default=150, help="fleets of the sample")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for part in given.part or ("paper", "sample"):
        if part == "paper":
            _paper()
        elif part == "sample":
            _rates(_sample(given.fleets, given.seed), f"{given.fleets} fleets drawn with seed {given.seed}")
        else:
            _rates(_grid(_run(given.racks), _run(given.hosts)), f"{given.racks} racks of {given.hosts} hosts")


def _paper() -> None:
    """Each table's times, with the rate of a link taken from the all-reduce of table V."""
    print(
        "times in ms, published / model (off by); one rate per data set, by table V's all-reduce; latency not counted"
    )
    print(f"{'scenario':<34} {'data':<10} {'all-reduce':>22} {'hierarchical':>24} {'DS-Sync':>22}")
    off: list[float] = []
    for number, (name, (sizes, uplinks, hosts)) in enumerate(SCENARIOS.items()):
        for data, published in PUBLISHED_MS.items():
            rate = _model((4, 4), False, ())[0] / published[0][0]
            cells = []
            for stated, unit in zip(published[number], _model(sizes, uplinks, hosts)):
                found = unit / rate
                if stated != PUBLISHED_MS[data][0][0]:
                    off.append(found / stated - 1)
                cells.append(f"{stated:.0f} / {found:.0f} ({found / stated - 1:+.0%})")
            print(f"{name:<34} {data:<10} {cells[0]:>22} {cells[1]:>24} {cells[2]:>22}")
    print("\nall-reduce over DS-Sync, published (CIFAR-10, CIFAR-100, ImageNet, SQuAD) and by the model:")
    for number, (name, (sizes, uplinks, hosts)) in enumerate(SCENARIOS.items()):
        ratios = ", ".join(f"{rows[number][0] / rows[number][2]:.2f}" for rows in PUBLISHED_MS.values())
        times = _model(sizes, uplinks, hosts)
        print(f"{name:<34} {ratios:<28} {times[0] / times[2]:.2f}")
    print(
        f"but for the all-reduce of table V the model is off by {np.median(np.abs(off)):.0%} (median) and "
        f"{max(map(abs, off)):.0%} (most); ASP and Gossip are not modelled"
    )


def _model(sizes: Sequence[int], uplinks: bool, hosts: Sequence[int]) -> tuple[float, float, float]:
    """Seconds of an all-reduce, a hierarchical one, and DS-Sync, of a GiB at 1 GiB/s."""
    racks = _fleet(sizes)
    count = sum(sizes)
    slow = 1.0 / CONTENDED
    rates = Rates(
        alpha_s=np.zeros((count, count)),
        host=np.array([slow if host in hosts else 1.0 for host in range(count)]) / SIZE_BYTES,
        uplink=np.full(len(sizes), slow if uplinks else 1.0) / SIZE_BYTES,
        rack=np.repeat(np.arange(len(sizes)), sizes),
    )
    contended = range(len(sizes)) if uplinks else ()
    pattern = make_pattern(racks, contended, hosts)
    return (
        all_reduce_time_s(count, rates, SIZE_BYTES),
        hierarchical_time_s(racks, rates, SIZE_BYTES),
        pattern_time_s(pattern, rates, SIZE_BYTES),
    )


Fleet = tuple[list[int], int, int]
"""Hosts of each rack, contended racks (the first ones), contended hosts (the first ones)."""


def _grid(racks: range, hosts: range) -> Iterator[Fleet]:
    """Equal racks, and racks of which every second has a host fewer; 0 to 2 contended racks, or all, and hosts."""
    for count, size, few in itertools.product(racks, hosts, (0, 1)):
        if size > few:
            sizes = [size - few * (place % 2) for place in range(count)]
            yield from ((sizes, slow, weak) for slow in sorted({*COUNTS, count}) for weak in COUNTS)


def _sample(fleets: int, seed: int) -> Iterator[Fleet]:
    """2 to 32 racks of 1 to 16 hosts: equal, or each of its own size; 0 to 2, or all, racks contended."""
    draw = random.Random(seed)
    for _ in range(fleets):
        count, size = draw.randint(2, 32), draw.randint(1, 16)
        sizes = [draw.randint(1, size) for _ in range(count)] if draw.random() < 0.5 else [size] * count
        yield sizes, draw.choice((*COUNTS, count)), draw.choice(COUNTS)


def _rates(fleets: Iterator[Fleet], what: str) -> None:
    """The largest rho for every number of contended racks and hosts. Ends with an error at a rho of 1."""
    start, rows = time.process_time(), []
    for sizes, slow, weak in fleets:
        fleet, total = _fleet(sizes), sum(sizes)
        # Contended hosts in different racks.
        hosts = [rack[0] for rack in fleet[:weak]]
        pattern = make_pattern(fleet, range(slow), hosts)
        check_pattern(pattern, fleet)
        rho = rho_of(pattern, total)
        shape = f"{len(sizes)} racks of {min(sizes)} to {max(sizes)}, {slow} and {weak} contended"
        rows.append(("all" if slow >= len(sizes) else str(slow), weak, rho, rho ** (1 / len(pattern)), shape))
        if not rho < 1 - 1e-9:
            raise SystemExit(f"{shape}: the pattern does not mix: rho {rho}")
    print(f"\n{what}: {len(rows)} patterns, each proved, in {time.process_time() - start:.0f} CPU s")
    print(f"{'contended racks, hosts':<23} {'patterns':>8} {'largest rho':>12} {'an iteration':>13}  of")
    for slow_racks, weak_hosts in sorted({row[:2] for row in rows}):
        own = [row for row in rows if row[:2] == (slow_racks, weak_hosts)]
        worst = max(own, key=lambda row: row[3])
        print(
            f"{slow_racks + ', ' + str(weak_hosts):<23} {len(own):>8} {max(row[2] for row in own):>12.6f} "
            f"{worst[3]:>13.6f}  {worst[4]}"
        )
    print(
        f"largest of all: {max(row[2] for row in rows):.6f} a period, {max(row[3] for row in rows):.6f} an iteration"
    )


def _fleet(sizes: Sequence[int]) -> list[list[int]]:
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [list(range(a, b)) for a, b in itertools.pairwise(ends)]


def _run(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    main()
