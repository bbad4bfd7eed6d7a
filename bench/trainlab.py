"""trainlab: the executor's all-reduces against Gloo's own on 16 lab hosts in 4 racks with 4:1 uplinks."""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _lab_jobs import Job, drop, prepare, trial
from _lab_world import LabWorld
from _tables import heading, table
from wire import Fleet, scan

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.hosts import Host
from netprobe.core.units import parse_rate_bytes_per_s
from netprobe.lab import Lab, LabSpec, set_value, temporary
from netprobe.lab.kernel import GSO_BYTES_MAX, HOST_INTERFACE
from netprobe.lab.spec.queues import read_queue
from netprobe.pipeline.planning.plan_auto import AutoRequest, plan_auto
from netprobe.pipeline.planning.plan_two_level import TwoLevelRequest, plan_two_level, schedule_plan
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import hierarchical
from netprobe.plan.schedule.document import Placement
from netprobe.probe.methods.goodput_options import parse_size

GLOO = "Gloo, netprobe's order"
AUTO = "auto"
CLOSE = 1.5
"""Candidates that are predicted to take more than so many times what the choice takes are not run beside it."""


@contextmanager
def fleet_of(kind: str, options: argparse.Namespace) -> Iterator[Fleet]:
    """The lab, scanned with capacities. ``uneven``: one rack at half its uplink, two hosts at half their rate."""
    rate, half = options.rate, options.half
    racks: list[Any] = [4, 4, 4, 4]
    if kind == "uneven":
        racks[0] = {"hosts": 4, "uplink_rate": half}
    spec: dict[str, Any] = {"name": "trainlab", "racks": racks, "host_rate": rate, "uplink_rate": rate}
    spec |= {"host_queue": options.queue, "uplink_queue": options.queue}
    spec |= {"host_shaping": options.shaping, "congestion_control": options.congestion}
    with (
        tempfile.TemporaryDirectory() as folder,
        temporary(LabSpec.from_spec(spec), seed=options.seed) as lab,
    ):
        if kind == "uneven":
            for number, place in ((1, 1), (2, 2)):
                slow_down(lab, number, place, half, options)
        yield scan(lab, Path(folder) / "out", "rtt,capacity")


def slow_down(lab: Lab, rack: int, place: int, rate: str, options: argparse.Namespace) -> None:
    """Another rate for one host, at its own interface too where that is what holds it back."""
    where = f"rack{rack}/{place}"
    if options.shaping != "interface":
        set_value(lab, where, "rate", rate)
        return
    set_value(lab, where, "rx_rate", rate)
    name = lab.truth().groups[rack].hosts[place]
    own, queue = parse_rate_bytes_per_s(rate), read_queue(options.queue)
    tbf = (
        f"tbf rate {round(own * 8)}bit burst {GSO_BYTES_MAX} limit {queue.at_rate_bytes(own) + GSO_BYTES_MAX}"
    )
    argv = [
        "tc",
        "-n",
        lab.host(name).target,
        "qdisc",
        "replace",
        "dev",
        HOST_INTERFACE,
        "root",
        *tbf.split(),
    ]
    subprocess.run(argv, check=True, timeout=20)


def keep_windows(fleet: Fleet) -> None:
    """TCP connections go on as fast after a pause as they were before it."""
    for host in fleet.hosts:
        argv = ["ip", "netns", "exec", fleet.lab.host(host.name).target]
        argv += ["sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0"]
        subprocess.run(argv, check=True, timeout=20)


def bound_s(capacity: Capacity, size_bytes: int) -> float:
    """Least seconds of any all-reduce without help from switches, by the measured capacities.

    Among m parties (hosts, or groups behind their uplinks) 2 (m - 1) buffers must be sent in all, and each must send
    and receive one.
    """
    least = 0.0
    for kind in ("host_tx", "host_rx", "group_up", "group_down"):
        rates = [one.bytes_per_s for one in capacity.resources if one.kind == kind and one.bytes_per_s]
        if len(rates) > 1:
            least = max(least, size_bytes / min(rates), 2 * (len(rates) - 1) * size_bytes / sum(rates))
    return least


def plan_in(order: Sequence[str], algorithm: str) -> SchedulePlan:
    """A plan of an algorithm in an order."""
    hosts = [Host(name=name) for name in order]
    return build_schedule_plan(build(algorithm, len(order)), Placement(hosts=hosts, order=list(order)))


def jobs_of(
    fleet: Fleet, names: Sequence[str], size_bytes: int, native: bool, channels: Sequence[int] = ()
) -> tuple[list[Job], list[str]]:
    """Gloo, the ring, 2LHA, auto's choice and the best of its candidates, one an algorithm; and what they are.

    ``channels``: also 2LHA over so many connections a pair.
    """
    map_ = load_document(Map, fleet.folder / "map.json")
    place = {name: at for at, name in enumerate(names)}

    def job(name: str, plan: SchedulePlan) -> Job:
        return Job(name=name, ranks=tuple(place[host] for host in plan.order), plan=plan)

    orders = {"found": fleet.order}
    auto = plan_auto(
        map_, AutoRequest(size_bytes=size_bytes, ranges=False, orders=orders), capacity=fleet.capacity
    )
    chosen = auto.decision.candidate
    two = plan_two_level(map_, TwoLevelRequest(size_bytes=size_bytes), capacity=fleet.capacity)
    made = [
        Job(name=GLOO, ranks=tuple(place[name] for name in fleet.order)),
        job("chunked-ring, netprobe's order", plan_in(fleet.order, "chunked-ring")),
        job(two.tried[0].candidate.label, two.plan),
        job(AUTO, auto.plan),
    ]
    for count in channels:
        more = plan_two_level(
            map_, TwoLevelRequest(size_bytes=size_bytes, channels=count), capacity=fleet.capacity
        )
        made.append(job(more.tried[0].candidate.label, more.plan))
    told = [f"{AUTO}: {chosen.label}, {chosen.pieces(size_bytes)} pieces"]
    seen = {"chunked-ring", "2lha"}
    own_s = auto.tried[0].prediction.time_s if auto.tried[0].prediction else None
    hosts = [Host(name=name) for name in names]
    for one in auto.tried[1:]:
        candidate = one.candidate
        time_s = one.prediction.time_s if one.prediction else one.time_s
        if candidate.algorithm in seen or time_s is None or len(seen) > 4:
            continue
        if own_s is not None and time_s > CLOSE * own_s:
            continue
        seen.add(candidate.algorithm)
        plan = schedule_plan(
            candidate, hosts, predictions=[], size_bytes=size_bytes, advice="a candidate", parents=[], seed=0
        )
        made.append(job(candidate.label, plan))
    if native:
        racks = tuple(tuple(place[name] for name in rack) for rack in fleet.racks)
        ranks = [rank for rack in racks for rank in rack]
        groups = [[ranks.index(rank) for rank in rack] for rack in racks]
        hosts = [Host(name=names[rank]) for rank in ranks]
        by_rack = build_schedule_plan(
            hierarchical(groups), Placement(hosts=hosts, order=[host.name for host in hosts])
        )
        made.append(job("hierarchical, executor", by_rack))
        made.append(Job(name="hierarchical, native sub-groups", ranks=tuple(ranks), groups=racks))
    return made, told


class Race:
    """Trials of one size, and what they took; each after ``warm`` others of its contender that do not count."""

    def __init__(self, world: LabWorld, size_bytes: int, warm: int = 0) -> None:
        self._world, self._elements, self._warm = world, size_bytes // 4, warm
        self.took: dict[str, list[float]] = {}
        self.pairs: dict[str, list[float]] = {}
        """Of each contender its time over Gloo's of the same pass."""

    def run(self, near: Sequence[Job], far: Sequence[Job], passes: int, time_s: float, seed: int) -> int:
        """``near`` in another sequence each pass, ``far`` shared out among the passes; how many passes."""
        self._world.run(prepare, list(near), self._elements)
        rng, began = random.Random(seed), time.monotonic()
        each = -(-len(far) // passes)
        for turn in range(passes):
            now = [*near, *far[turn * each : (turn + 1) * each]]
            self._world.run(prepare, list(now), self._elements)
            rng.shuffle(now)
            pass_s = {one.name: self._trial(one.name) for one in now}
            for name, took in pass_s.items():
                self.took.setdefault(name, []).append(took)
                self.pairs.setdefault(name, []).append(took / pass_s[GLOO])
            self._world.run(drop, [one.name for one in now if one not in near])
            print(".", end="", file=sys.stderr, flush=True)
            if time.monotonic() - began > time_s:
                break
        self._world.run(drop, [one.name for one in near if one.plan is not None])
        return turn + 1

    def _trial(self, name: str) -> float:
        for _ in range(self._warm):
            self._world.run(trial, name, self._elements)
        answers: list[tuple[float, float, float]] = self._world.run(trial, name, self._elements)
        return max(took for took, _, _ in answers)


def span(values: Sequence[float], unit: float = 1.0) -> str:
    """Median and range."""
    low, high = min(values) * unit, max(values) * unit
    return f"{statistics.median(values) * unit:.3g} ({low:.3g} .. {high:.3g})"


def show(fleet: Fleet, size: str, race: Race, near: Sequence[Job], far: Sequence[Job]) -> tuple[float, float]:
    """The rows of a size; auto's choice over the best candidate, and Gloo over auto's choice."""
    rows = [
        [one.name, size, span(race.took[one.name], 1e3), span(race.pairs[one.name]), len(race.took[one.name])]
        for one in near
    ]
    random_s = [race.took[one.name][0] for one in far if one.name in race.took]
    if random_s:
        ratios = [race.pairs[one.name][0] for one in far if one.name in race.pairs]
        rows.append([f"Gloo, {len(random_s)} random orders", size, span(random_s, 1e3), span(ratios), 1])
    table(["all-reduce", "buffer", "ms (range)", "times Gloo in netprobe's order", "runs"], rows)
    middle = {one.name: statistics.median(race.took[one.name]) for one in near}
    best = min((name for name in middle if name not in (GLOO, AUTO)), key=lambda name: middle[name])
    assert fleet.capacity is not None
    least = bound_s(fleet.capacity, parse_size(size).bytes)
    print(
        f"{size}: fluid bound {1e3 * least:.3g} ms ({middle[GLOO] / least:.2f} x for Gloo in netprobe's order, "
        f"{middle[AUTO] / least:.2f} x for auto); auto / best candidate ({best}) {middle[AUTO] / middle[best]:.2f}; "
        f"Gloo / auto {middle[GLOO] / middle[AUTO]:.2f}\n"
    )
    return middle[AUTO] / middle[best], middle[GLOO] / middle[AUTO]


def main() -> None:
    """One fleet, size after size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleet", choices=["even", "uneven"], default="even")
    parser.add_argument("--sizes", default="1MB,8MB", help="of the buffer on each host")
    parser.add_argument("--orders", type=int, default=10, help="random orders of Gloo")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--time", type=float, default=150, help="seconds for each size, about")
    parser.add_argument("--rate", default="50Mbit/s", help="of a host, and of an uplink of four")
    parser.add_argument("--half", default="25Mbit/s", help="the slow ones of the uneven fleet")
    parser.add_argument("--native", action="store_true", help="also Gloo's own collectives of the racks")
    parser.add_argument(
        "--channels", type=int, nargs="*", default=[], help="also 2LHA over so many connections a pair"
    )
    parser.add_argument("--queue", default="1000 packets", help="of hosts and uplinks, as in a lab's spec")
    parser.add_argument(
        "--shaping", default="interface", help="where hosts are held back: interface or fabric"
    )
    parser.add_argument("--congestion", default="reno", help="congestion control of the hosts")
    parser.add_argument(
        "--warm", type=int, default=0, help="runs of a contender just before the one that counts"
    )
    parser.add_argument(
        "--keep-windows", action="store_true", help="hosts with tcp_slow_start_after_idle off"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    heading(
        f"All-reduce in a job: 16 hosts of {options.rate} in 4 racks, 4:1 uplinks, {options.fleet}, shaped by "
        f"{options.shaping}, queues of {options.queue}, {options.congestion}"
    )
    began = time.monotonic()
    ratios = []
    with fleet_of(options.fleet, options) as fleet:
        if options.keep_windows:
            keep_windows(fleet)
        world = LabWorld(fleet.lab, [host.name for host in fleet.hosts])
        try:
            rng = random.Random(options.seed)
            for size in options.sizes.split(","):
                near, told = jobs_of(
                    fleet, world.names, parse_size(size).bytes, options.native, options.channels
                )
                far = [
                    Job(name=f"random {i}", ranks=tuple(rng.sample(range(16), 16)))
                    for i in range(options.orders)
                ]
                print("; ".join(told))
                race = Race(world, parse_size(size).bytes, options.warm)
                race.run(near, far, options.passes, options.time, options.seed)
                ratios.append(show(fleet, size, race, near, far))
        finally:
            world.close()
    print(f"auto / best candidate: {', '.join(f'{one:.2f}' for one, _ in ratios)}")
    print(f"load of the machine (1, 5, 15 minutes): {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"wall time: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
