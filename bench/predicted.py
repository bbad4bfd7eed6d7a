"""Predicted against measured times: seven all-reduces by the agents on a lab with 4:1 uplinks.

The simulator knows capacities (goodput, so that headers are paid) and latencies. What a message costs its two hosts is
read from a ring of 100 bytes a message in the same lab, less the latency, and added to each hop in a column of its own:
on one machine all hosts share the processors. It changes from minute to minute, so that it is read before and after
each size. The interval of a prediction holds what four of five of these runs say, what capacities leave open, and
shares from even ones to the most uneven ones. A pair is ordered beyond its interval where the intervals of its two do
not overlap, at the least and at the most that a message costs both. Segments that were sent again are counted in the
hosts' namespaces, after each run. The lab's queues are as long as those of a Linux interface unless ``--queue`` says
otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from _tables import heading, table
from _tcp_counters import KEYS, Counters
from scipy import stats
from wire import Fleet, scanned

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.pipeline.planning.plan_two_level import TwoLevelRequest, plan_two_level
from netprobe.plan import proved_schedule
from netprobe.plan.auto.known import known_network
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Job, Network
from netprobe.plan.simulate.simulate import simulate, uneven_shares
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.methods.goodput_options import parse_size
from netprobe.probe.records.events import Step
from netprobe.probe.records.options import ScanOptions
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.run import Contender, Contenders, VerifyOptions, run_verify

ALGORITHMS = (
    "chunked-ring",
    "halving-doubling",
    "flat",
    "bcube",
    "double-binary-tree",
    "recursive-doubling",
    "2lha",
)


Ends = tuple[float, float]
"""The least and the most seconds that are predicted."""


@dataclass(frozen=True, kw_only=True)
class Raced:
    """An algorithm: seconds predicted by the network alone and with the cost of messages, and those of each pass
    over all algorithms."""

    name: str
    network_s: float
    predicted_s: float
    ends: tuple[Ends, Ends]
    """Where a message costs least, and where it costs most."""
    took_s: tuple[float, ...]
    counted: np.ndarray
    """Segments sent in all its runs, those sent again, timeouts."""

    @property
    def median_s(self) -> float:
        return float(np.median(self.took_s))

    @property
    def between_s(self) -> Ends:
        """The prediction's interval."""
        return min(low for low, _ in self.ends), max(high for _, high in self.ends)

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what was measured."""
        return self.predicted_s / self.median_s - 1

    @property
    def network_error(self) -> float:
        """The same of the network alone."""
        return self.network_s / self.median_s - 1

    def interval(self) -> tuple[float, float]:
        """95 % of the geometric mean (Student over logarithms)."""
        return mean_interval(np.log(self.took_s))


def mean_interval(logs: np.ndarray) -> tuple[float, float]:
    """95 % of exp(mean). Of one reading: everything."""
    if len(logs) < 2:
        return 0.0, math.inf
    half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / math.sqrt(len(logs))
    return float(np.exp(np.mean(logs) - half)), float(np.exp(np.mean(logs) + half))


def wrong_pairs(raced: Sequence[Raced]) -> tuple[list[str], list[str]]:
    """Pairs that measured surely the other way round than predicted, by the ratio of neighbours in time: by the
    predictions alone, and those whose intervals do not overlap."""
    found, beyond = [], []
    for one, two in itertools.combinations(raced, 2):
        first, second = sorted((one, two), key=lambda it: it.predicted_s)
        if first.predicted_s == second.predicted_s:
            continue
        low, _ = mean_interval(np.log(first.took_s) - np.log(second.took_s))
        if low <= 1:
            continue
        found.append(f"{first.name} before {second.name}")
        if all(mine[1] < other[0] for mine, other in zip(first.ends, second.ends, strict=True)):
            beyond.append(found[-1])
    return found, beyond


def schedules(
    fleet: Fleet, map_: Map, names: Sequence[str], size_bytes: int
) -> dict[str, tuple[Schedule, list[str]]]:
    """Name -> schedule, and the hosts in rank order: netprobe's order, 2LHA as it plans it."""
    made = {}
    for name in names:
        if name == "2lha":
            plan = plan_two_level(map_, TwoLevelRequest(size_bytes=size_bytes), capacity=fleet.capacity).plan
            made[name] = (proved_schedule(plan)[0], list(plan.order))
        else:
            made[name] = (build(name, len(fleet.order)), fleet.order)
    return made


def with_capacity(fleet: Fleet, seconds: str = "1") -> Fleet:
    """The same with measured capacities, by the command of a user."""
    argv = [sys.executable, "-m", "netprobe", "capacity", str(fleet.folder / "scan.json"), "--quiet"]
    argv += ["--seconds", seconds]
    argv += ["--via", fleet.lab.via_template, "--python", sys.executable]
    subprocess.run(argv, check=True, timeout=200)
    return replace(fleet, capacity=load_document(Capacity, fleet.folder / "capacity.json"))


def run(
    fleet: Fleet, every: Sequence[Contender], size_bytes: int, time_s: float
) -> tuple[list[list[float]], list[np.ndarray]]:
    """Seconds of each, pass by pass in another sequence each time, and what TCP counted in them."""
    counters = Counters([host.target for host in fleet.lab.hosts])
    seen = [counters.read()]

    def on_event(event: object) -> None:
        # One a run, and no other: there is no comparison.
        if isinstance(event, Step) and event.text == "running orders":
            seen.append(counters.read())
        elif isinstance(event, Step):
            seen[0] = counters.read()

    outcome = run_verify(
        fleet.hosts,
        "chunked-ring",
        lambda _up, _size: Contenders(proposed=every[0], baselines=(), surveyed=tuple(every)),
        parse_via(fleet.lab.via_template),
        ScanOptions(python=sys.executable),
        VerifyOptions(size_bytes=size_bytes, comparison=ComparisonOptions(time_s=time_s, precision=1.0)),
        on_event=on_event,
    )
    if outcome.stopped is not None:
        raise SystemExit(f"the agents stopped: {outcome.stopped}")
    took: list[list[float]] = [[] for _ in every]
    counted = [np.zeros(len(KEYS)) for _ in every]
    for number, one in enumerate(outcome.record.survey):
        took[one.order - 1].append(one.seconds)
        counted[one.order - 1] += seen[number + 1] - seen[number]
    return took, counted


def message_s(fleet: Fleet, network: Network) -> np.ndarray:
    """What a message costs its two hosts: a hop of a ring of small messages, less its latency; of each run."""
    size, ranks = 100 * len(fleet.order), len(fleet.order)
    ring = Contender(
        name="ring", order=tuple(fleet.indices(fleet.order)), schedule=build("chunked-ring", ranks)
    )
    took, _ = run(fleet, [ring, replace(ring, name="again")], size, 5.0)
    hops = 2 * (ranks - 1)
    least = simulate(
        network, [Job(schedule=build("chunked-ring", ranks), order=fleet.order, size_bytes=size)]
    )
    return np.maximum(0.0, (np.concatenate(took) - least.time_s) / hops)


def predict(network: Network, each_s: np.ndarray, job: Job) -> tuple[float, tuple[Ends, Ends]]:
    """Seconds of a job where a message costs what half of the runs say, and the ends for what 10 and 90 % do."""
    between = ~np.eye(len(network.hosts), dtype=bool)
    low, middle, high = (
        replace(network, alpha_s=network.alpha_s + cost * between)
        for cost in np.quantile(each_s, (0.1, 0.5, 0.9))
    )
    shares = uneven_shares(middle, job)
    ends = [
        (
            simulate(costly.with_capacity(network.high), [job]).time_s,
            simulate(costly.slowest(), [job]).time_s * shares.most,
        )
        for costly in (low, high)
    ]
    return simulate(middle, [job]).time_s * shares.median, (ends[0], ends[1])


def race(
    fleet: Fleet, network: Network, before_s: np.ndarray, names: Sequence[str], size_bytes: int, time_s: float
) -> tuple[list[Raced], np.ndarray]:
    """Every algorithm in turn, and what a message costs afterwards; the first pass does not count where there are
    others. ``before_s`` is what it cost before."""
    map_ = load_document(Map, fleet.folder / "map.json")
    made = schedules(fleet, map_, names, size_bytes)
    every = [
        Contender(name=name, order=tuple(fleet.indices(order)), schedule=schedule)
        for name, (schedule, order) in made.items()
    ]
    took, counted = run(fleet, every, size_bytes, time_s)
    passes = min(map(len, took))
    if not passes:
        raise SystemExit(f"{time_s:g} s are too short for one run of each: give --time")
    after_s = message_s(fleet, network)
    raced = []
    for (name, (schedule, order)), own, seen in zip(made.items(), took, counted, strict=True):
        job = Job(schedule=schedule, order=order, size_bytes=size_bytes)
        predicted, ends = predict(network, np.concatenate([before_s, after_s]), job)
        one = Raced(
            name=name,
            network_s=simulate(network, [job]).time_s,
            predicted_s=predicted,
            ends=ends,
            took_s=tuple(own[1 if passes > 2 else 0 : passes]),
            counted=seen,
        )
        raced.append(one)
    return raced, after_s


def show(size: str, raced: Sequence[Raced]) -> tuple[list[str], list[str]]:
    """The table of a size, and its pairs that were ordered wrongly."""
    rows, inside = [], 0
    for one in raced:
        low, high = one.interval()
        least, most = one.between_s
        inside += least <= one.median_s <= most
        rows.append(
            (
                one.name, size, f"{one.network_s:.3f}", f"{one.predicted_s:.3f}",
                f"{least:.3f} .. {most:.3f}", f"{one.median_s:.3f}", f"{low:.3f} .. {high:.3f}",
                len(one.took_s), f"{100 * one.network_error:+.0f} %", f"{100 * one.error:+.0f} %",
                f"{100 * one.counted[1] / max(one.counted[0], 1):.1f} %", int(one.counted[2]),
            )
        )  # fmt: skip
    columns = ("algorithm", "buffer", "network, s", "predicted, s", "interval", "measured, s", "95 %", "runs")
    table((*columns, "error of network", "error", "sent again", "timeouts"), rows)
    wrong, beyond = wrong_pairs(raced)
    errors = [[abs(one.network_error) for one in raced], [abs(one.error) for one in raced]]
    median = [f"{100 * np.median(some):.0f} %" for some in errors]
    print(
        f"{size}: median error {median[1]} ({median[0]} by the network alone); measured within the interval: {inside} "
        f"of {len(raced)}; wrongly ordered beyond their interval: {', '.join(beyond) or 'none'}; by the predictions "
        f"alone: {', '.join(wrong) or 'none'}; load of the machine {os.getloadavg()[0]:.1f}\n"
    )
    return wrong, beyond


def keep(folder: Path, fleet: Fleet, each_s: np.ndarray, size: str, raced: Sequence[Raced]) -> None:
    """What the predictions of a size rest on and what was measured, to look at it without a lab."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("map.json", "capacity.json"):
        shutil.copy(fleet.folder / name, folder / name)
    readings = {one.name: {"predicted_s": one.predicted_s, "took_s": one.took_s} for one in raced}
    kept = {"size": size, "order": fleet.order, "message_s": each_s.tolist(), "readings": readings}
    (folder / f"{size}.json").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    """Race, print, sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="256kB,2MB,16MB", help="of the buffer on each host")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--rate", default="50Mbit/s", help="of a host")
    parser.add_argument("--uplink", default="50Mbit/s", help="of a rack's uplink")
    parser.add_argument("--racks", default="4,4,4,4", help="hosts in each rack")
    parser.add_argument("--queue", default="1000 packets", help="of hosts and uplinks, as in a lab's spec")
    parser.add_argument(
        "--shaping", default="interface", help="where hosts are held back: interface or fabric"
    )
    parser.add_argument("--mark", help="queue above which packets are marked (ECN)")
    parser.add_argument("--congestion", default="reno", help="congestion control of the hosts")
    parser.add_argument("--test", default="1", help="seconds of each test of the capacity probe")
    parser.add_argument("--time", default="100", help="seconds for each size, one figure or one a size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the lab's documents and every reading")
    options = parser.parse_args()
    more: dict[str, object] = {
        "racks": [int(hosts) for hosts in options.racks.split(",")], "uplink_rate": options.uplink,
        "host_shaping": options.shaping, "host_queue": options.queue, "uplink_queue": options.queue,
        "congestion_control": options.congestion, **({"ecn_mark": options.mark} if options.mark else {}),
    }  # fmt: skip
    heading(
        f"All-reduce by the agents: racks of {options.racks} hosts of {options.rate}, uplinks of {options.uplink}, "
        f"shaped by {options.shaping}, queues of {options.queue}, {options.congestion}, "
        f"{'marks above ' + options.mark if options.mark else 'no marks'}, "
        f"seed {options.seed}"
    )
    began, wrong, beyond, pairs = time.monotonic(), 0, 0, 0
    errors: list[float] = []
    with scanned(options.rate, options.seed, more=more) as scanned_only:
        fleet = with_capacity(scanned_only, options.test)
        map_ = load_document(Map, fleet.folder / "map.json")
        network = known_network(map_, fleet.order, fleet.capacity).network
        before_s = message_s(fleet, network)
        sizes = options.sizes.split(",")
        times = [float(seconds) for seconds in options.time.split(",")]
        for size, time_s in zip(sizes, times if len(times) > 1 else times * len(sizes), strict=True):
            names = options.algorithms.split(",")
            raced, after_s = race(fleet, network, before_s, names, parse_size(size).bytes, time_s)
            each_s = np.concatenate([before_s, after_s])
            low, middle, high = 1e3 * np.quantile(each_s, (0.1, 0.5, 0.9))
            print(
                f"a message costs its two hosts {middle:.2f} ms ({low:.2f} .. {high:.2f} in four of five runs; "
                f"before {1e3 * np.median(before_s):.2f}, after {1e3 * np.median(after_s):.2f})\n"
            )
            some_wrong, some_beyond = show(size, raced)
            wrong, beyond = wrong + len(some_wrong), beyond + len(some_beyond)
            pairs += math.comb(len(raced), 2)
            errors += [abs(one.error) for one in raced]
            if options.keep:
                keep(options.keep, fleet, each_s, size, raced)
            before_s = after_s
    print(f"all: median error {100 * np.median(errors):.0f} %, largest {100 * max(errors):.0f} %")
    print(
        f"pairs ordered wrongly beyond their interval: {beyond} of {pairs}; by the predictions alone: {wrong}"
    )
    print(f"load of the machine (1, 5, 15 minutes): {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"wall time: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
