"""dssync: rates of divide-and-shuffle patterns, each proved to mix all hosts; a sample of small fleets."""

from __future__ import annotations

import argparse
import itertools
import time

from netprobe.plan.ds_sync.consensus import check_pattern, rho_of
from netprobe.plan.ds_sync.patterns import make_pattern


def main() -> None:
    """Print a row for every number of contended racks and hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=40, help="largest fleet tried")
    most = parser.parse_args().hosts
    start, total = time.monotonic(), 0
    print(
        f"{'contended':<22} {'fleets':>6} {'largest norm':>12} {'largest rho an iteration':>24}  slowest fleet"
    )
    for racks in (0, 1, 2, None):
        for weak in (0, 1, 2):
            rows = []
            for sizes in _fleets(most):
                ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
                fleet = [list(range(a, b)) for a, b in itertools.pairwise(ends)]
                contended = range(len(sizes) if racks is None else racks)
                pattern = make_pattern(fleet, contended, range(min(weak, sum(sizes))))
                check_pattern(pattern, fleet)
                rho = rho_of(pattern, sum(sizes))
                shape = f"{len(sizes)} racks of {sizes[0]}, {sizes[-1]}"
                rows.append((rho ** (1 / len(pattern)), rho, shape))
            total += len(rows)
            rate, _, slowest = max(rows)
            name = f"{'all' if racks is None else racks} racks, {weak} hosts"
            print(f"{name:<22} {len(rows):>6} {max(row[1] for row in rows):>12.5f} {rate:>24.5f}  {slowest}")
            if max(row[1] for row in rows) >= 1:
                raise SystemExit("a pattern does not contract")
    print(f"{total} fleets proved, in {time.monotonic() - start:.0f} s")


def _fleets(most: int) -> list[list[int]]:
    """Equal racks, and racks of which every second has a host fewer."""
    fleets = []
    for racks in (2, 3, 4, 5, 8, 13, 16, 32):
        for size in (1, 2, 3, 4, 5, 8, 16):
            if racks * size <= most:
                fleets.append([size] * racks)
                if size > 1:
                    fleets.append([size - place % 2 for place in range(racks)])
    return fleets


if __name__ == "__main__":
    main()
