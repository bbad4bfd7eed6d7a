"""Latency-based and bandwidth-based maps: how right RTT and goodput, raw and mapped, read the hops.

The dissertation has 95.6 % of its hops right by latency and 77.4 % by bandwidth. Here the same fleets of
`_datacentre` (cell N3, family "reported") are read both ways. What a goodput reading is:

    host      10 Gbit/s, and 5 Gbit/s on one host in five (an older card); the slower end counts
    rack      holds 20 machines, ours and others'; a row 8 racks; a cluster 4 rows
    uplink    of a rack, row or cluster, a way up and one down: what all below could send, less by the
              oversubscription of its tier (1 : non-blocking, 2 or 4 to 1 at every tier)
    others    send out of a rack with 1/2 of its machines, out of a row with 3 in 10, out of a cluster with 1
              in 5, on average; each uplink has a lasting factor of its own (lognormal, 0.3), and each reading
              meets a Poisson number of others' flows
    goodput   the least of both ends and of a fair share, capacity / (1 + flows), of each uplink on the way;
              times lognormal noise of 0.05

A single flow learns nothing from an uplink that has room for it: this, and not noise, is what goodput misses.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from _datacentre import PLACEMENTS, REPORTED, Fleet, Labels, Matrix, Placement, make_fleet, paia
from _tables import heading, table
from map import interval, rack_ami

from netprobe.embed import EmbedOptions, fit_embedding

FAST, SLOW, SLOW_SHARE = 10e9 / 8, 5e9 / 8, 0.2
# Of rack, row and cluster: machines below the uplink, uplinks of the tier below it, share that sends out.
MACHINES = (20, 160, 640)
BELOW = (20, 8, 4)
SENDING = (0.5, 0.3, 0.2)
LASTING, NOISE = 0.3, 0.05
OVERSUBSCRIBED = (1.0, 2.0, 4.0)


def read_goodput(fleet: Fleet, cluster: Labels, ratio: float, seed: int) -> Matrix:
    """(N, N) ``[src, dst]`` bytes a second of one flow at a time, as the docstring of this file has it."""
    rng = np.random.default_rng([seed, 77])
    n = len(fleet.rack)
    rate = np.where(rng.random(n) < SLOW_SHARE, SLOW, FAST)
    goodput = np.minimum(rate[:, None], rate[None, :])
    capacity = FAST
    for label, machines, below, sending in zip((fleet.rack, fleet.row, cluster), MACHINES, BELOW, SENDING):
        capacity = capacity * below / ratio
        crossing = label[:, None] != label[None, :]
        for way in (label[:, None], label[None, :]):  # up from the source, down to the destination
            busy = machines * sending * np.exp(rng.normal(0.0, LASTING, int(label.max()) + 1))
            flows = rng.poisson(np.broadcast_to(busy[way], (n, n)))
            goodput = np.where(crossing, np.minimum(goodput, capacity / (1 + flows)), goodput)
    return np.asarray(goodput * np.exp(rng.normal(0.0, NOISE, (n, n))))


def clusters_of(fleet: Fleet) -> Labels:
    """(N,) a label of the cluster of every host: those fewer than 8 hops apart are in one."""
    return np.unique(np.argmax(fleet.hops < 8, axis=1), return_inverse=True)[1].astype(np.int64)


def mapped(distance: Matrix, seed: int) -> Matrix:
    """(N, N) the distances of a map's layer."""
    return fit_embedding(distance, options=EmbedOptions(), seed=seed).distance_s


def one_fleet(n: int, placement: Placement, ratio: float, seed: int) -> dict[str, tuple[float, float]]:
    """PAIA and AMI against the racks (rows where spread) of each view of one fleet, RTT's once a fleet."""
    fleet = make_fleet(n, placement=placement, cell="N3", seed=seed, family=REPORTED)
    beta = 1.0 / read_goodput(fleet, clusters_of(fleet), ratio, seed)
    np.fill_diagonal(beta, 0.0)
    views = {}
    if ratio == OVERSUBSCRIBED[0]:  # the uplinks change no round trip
        views = {"RTT, raw": fleet.larger_s, "RTT, map": mapped(fleet.rtt_s, seed)}
    views |= {
        "goodput, raw": np.maximum(beta, beta.T),
        "goodput, map": mapped(beta, seed),
    }
    return {
        name: (paia(fleet.hops, view), rack_ami(np.asarray(view), fleet, placement))
        for name, view in views.items()
    }


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=12, help="fleets a row (default 12)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="fleets at a time")
    options = parser.parse_args()
    if options.hosts < 4 or options.seeds < 1:
        parser.error(f"--hosts {options.hosts} --seeds {options.seeds}: at least 4 hosts and 1 seed")
    heading(
        f"{options.hosts} hosts, cell N3, family 'reported', seeds 0 to {options.seeds - 1}: the same fleets "
        "read by RTT and by goodput.\nOversubscription: at each of rack, row and cluster. Nothing of the "
        "goodput model was fitted to the published figures."
    )
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for placement in PLACEMENTS:
            for ratio in OVERSUBSCRIBED:
                waiting = [
                    pool.submit(one_fleet, options.hosts, placement, ratio, seed)
                    for seed in range(options.seeds)
                ]
                found = [future.result() for future in waiting]
                for view in found[0]:
                    scores, racks = zip(*(one[view] for one in found))
                    rows.append(
                        (
                            placement,
                            "-" if view.startswith("RTT") else f"{ratio:.0f}:1",
                            view,
                            f"{np.mean(scores):.3f}",
                            f"{min(scores):.3f}",
                            interval(list(scores)),
                            f"{np.mean(racks):.3f}",
                        )
                    )
    table(("placement", "oversubscribed", "distances", "PAIA mean", "min", "95 % interval", "AMI"), rows)


if __name__ == "__main__":
    main()
