"""Open MPI's and Gloo's all-reduce in netprobe's order against random ones, on a lab with 4:1 uplinks."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from _tables import heading, table

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import load_document
from netprobe.core.hosts import Host, read_hosts_file
from netprobe.lab import Lab, LabSpec, temporary
from netprobe.pipeline.verifying.libraries import library_named
from netprobe.plan import load_plan
from netprobe.plan.costs import cost_model
from netprobe.plan.costs.rough_times import rough_time_s, worst_uplink_crossings
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.options import ScanOptions
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.correlate import correlate
from netprobe.verify.libraries.library import Library, LibrarySession
from netprobe.verify.run import Contender, Contenders, VerifyOptions, run_verify

PARTS = ("mpi", "gloo", "algorithms", "agents", "prediction")
MODELS = {
    "halving-doubling": "halving-doubling",
    "recursive-doubling": "recursive-doubling",
    "tree": "binomial-tree",
}
"""Whose cost the order is planned for."""
OTHERS = ("halving-doubling", "recursive-doubling", "tree")
BY_AGENTS = (
    "chunked-ring",
    "halving-doubling",
    "recursive-doubling",
    "bcube",
    "double-binary-tree",
    "nccl-tree",
)
RESAMPLES = 4000

Names = list[str]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A lab that was scanned: its hosts, netprobe's order, the true racks, the measured capacities."""

    lab: Lab
    hosts: tuple[Host, ...]
    order: Names
    racks: list[Names]
    capacity: Capacity | None
    folder: Path

    @property
    def rack_order(self) -> Names:
        """The hosts rack by rack."""
        return [name for rack in self.racks for name in rack]

    def indices(self, order: Names) -> list[int]:
        """An order of names as one of the hosts file's lines."""
        at = {host.name: i for i, host in enumerate(self.hosts)}
        return [at[name] for name in order]

    def crossings(self, order: Names) -> int:
        """Hops of the ring that leave the rack whose hops leave it most often."""
        return worst_uplink_crossings(order, self.racks)

    def mpi(self) -> Library:
        """mpirun on the lab's controller, from exported hostfiles."""
        subnet = "10.77.0.0/16"
        mca = [f"plm_rsh_agent={' '.join(self.lab.rsh_agent_argv)}", "pml=ob1", "btl=tcp,self"]
        mca += [f"btl_tcp_if_include={subnet}", f"oob_tcp_if_include={subnet}", "mpi_yield_when_idle=1"]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        os.environ.update(root)
        prefix = self.lab.exec_argv(None, ["env"])
        return library_named("mpi", launcher=parse_via("local"), mca=mca, prefix=prefix)

    def gloo(self) -> Library:
        """A process a host, by the lab's own template."""
        return library_named("gloo", launcher=parse_via(self.lab.via_template), python=sys.executable)


def scan(lab: Lab, folder: Path, measure: str) -> Fleet:
    """Scan, map, plan and perhaps measure capacity, as a user would."""
    argv = [sys.executable, "-m", "netprobe", "scan", "--hosts", str(lab.hosts_path), "--out", str(folder)]
    argv += ["--via", lab.via_template, "--python", sys.executable, "--measure", measure, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise SystemExit(f"netprobe scan failed: {done.stderr.strip()}")
    print(f"scanned: groups {[len(g['hosts']) for g in json.loads(done.stdout)['groups']]}", file=sys.stderr)
    plan = load_plan(folder / "plan.json")
    return Fleet(
        lab=lab,
        hosts=read_hosts_file(lab.hosts_path),
        order=list(plan.order),  # type: ignore[attr-defined]
        racks=[list(group.hosts) for group in lab.truth().groups],
        capacity=load_document(Capacity, folder / "capacity.json") if "capacity" in measure else None,
        folder=folder,
    )


def planned_for(fleet: Fleet, algorithm: str) -> Names:
    """netprobe's order for another algorithm than the ring, by the measured capacities."""
    path = fleet.folder / f"{algorithm}.json"
    argv = [sys.executable, "-m", "netprobe", "plan", "order", str(fleet.folder / "map.json")]
    argv += ["--algorithm", algorithm, "--capacity", str(fleet.folder / "capacity.json")]
    subprocess.run([*argv, "--out", str(path), "--quiet"], check=True, timeout=170)
    return list(load_plan(path).order)  # type: ignore[attr-defined]


def random_orders(fleet: Fleet, count: int, seed: int) -> list[Names]:
    """Seeded permutations."""
    rng = random.Random(seed)
    names = [host.name for host in fleet.hosts]
    return [rng.sample(names, len(names)) for _ in range(count)]


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of each trial: of netprobe's order, of the true rack order, and of each random order."""

    netprobe: list[float]
    racks: list[float]
    random: list[list[float]]


def race(
    session: LibrarySession, fleet: Fleet, orders: Sequence[Names], size_bytes: int, repeats: int
) -> Times:
    """Each random order ``repeats`` times, a trial of netprobe's and one of the rack order for each two."""
    times = Times(netprobe=[], racks=[], random=[[] for _ in orders])

    def trial(order: Names) -> float:
        return session.time_all_reduce(fleet.indices(order), size_bytes, 120.0)

    for turn in range(repeats):
        for i, order in enumerate(orders):
            times.random[i].append(trial(order))
            pair = [(times.netprobe, fleet.order), (times.racks, fleet.rack_order)]
            for seconds, near in pair if (i + turn) % 2 else pair[::-1]:
                seconds.append(trial(near))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times


def interval(statistic: Callable[[np.random.Generator], float]) -> tuple[float, float]:
    """2.5 % and 97.5 % of a statistic over resamples."""
    rng = np.random.default_rng(0)
    low, high = np.percentile([statistic(rng) for _ in range(RESAMPLES)], [2.5, 97.5])
    return float(low), float(high)


def mean_of(values: Sequence[float], rng: np.random.Generator) -> float:
    return float(np.mean(rng.choice(np.asarray(values), len(values))))


def summary(times: Times) -> list[str]:
    """Times, random's mean over netprobe's, and netprobe's over the rack order's, with 95 % intervals."""
    each = [float(np.mean(seconds)) for seconds in times.random]
    ratio = float(np.mean(each) / np.mean(times.netprobe))
    low, high = interval(lambda rng: mean_of(each, rng) / mean_of(times.netprobe, rng))
    # Trials side by side meet the same load of the machine.
    pairs = np.asarray(times.netprobe) / np.asarray(times.racks)
    near = float(np.median(pairs))
    least, most = interval(lambda rng: float(np.median(rng.choice(pairs, len(pairs)))))
    return [
        f"{np.mean(times.netprobe):.2f} s",
        f"{np.mean(each):.2f} s",
        f"{ratio:.2f} ({low:.2f} .. {high:.2f})",
        f"{near:.2f} ({least:.2f} .. {most:.2f})",
    ]


def ring_row(what: str, session: LibrarySession, fleet: Fleet, options: argparse.Namespace) -> list[str]:
    """One library's ring."""
    orders = random_orders(fleet, options.orders, options.seed)
    times = race(session, fleet, orders, options.size, options.repeats)
    cells = summary(times)
    allowed = float(np.mean([fleet.crossings(order) for order in orders])) / fleet.crossings(fleet.order)
    ratio = float(np.mean([np.mean(seconds) for seconds in times.random]) / np.mean(times.netprobe))
    return [f"{what} ({session.version})", *cells, f"{allowed:.2f}", f"{100 * ratio / allowed:.0f} %"]


def other_row(name: str, fleet: Fleet, options: argparse.Namespace) -> list[str]:
    """An algorithm of Open MPI's that is not a ring, in the order that is planned for it."""
    fleet = replace(fleet, order=planned_for(fleet, MODELS[name]))
    orders = random_orders(fleet, options.other_orders, options.seed)
    with fleet.mpi().open(fleet.hosts, algorithm=name, start_timeout_s=120.0) as session:
        return [name, *summary(race(session, fleet, orders, options.size, 1))]


def by_agents(fleet: Fleet, algorithm: str, options: argparse.Namespace) -> list[str]:
    """An algorithm run by netprobe's agents in the order planned for it, against random ones in turn."""
    planned_for(fleet, algorithm)
    plan, capacity = fleet.folder / f"{algorithm}.json", fleet.folder / "capacity.json"
    argv = [sys.executable, "-m", "netprobe", "verify", str(plan), "--capacity", str(capacity), "--json"]
    argv += ["--via", fleet.lab.via_template, "--python", sys.executable, "--against", "random"]
    argv += ["--size", f"{options.agents_size}", "--time", f"{options.agents_time}s", "--precision", "2%"]
    argv += ["--out", str(fleet.folder / f"verify-{algorithm}.json")]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=options.agents_time + 200, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"netprobe verify failed: {done.stderr.strip()}")
    found = json.loads(done.stdout)["comparison"]
    interval = f"({found['low']:.2f} .. {found['high']:.2f})"
    return [
        algorithm,
        f"{found['ratio']:.2f} {interval}",
        f"{found['pairs']}",
        f"{found['predicted_ratio']:.2f}",
    ]


def stratified(fleet: Fleet, each: int, seed: int) -> list[Names]:
    """``each`` orders for every number of crossings of the worst uplink, from 1 to a rack's hosts."""
    rng = random.Random(seed)
    wanted = dict.fromkeys(range(1, max(map(len, fleet.racks)) + 1), each)
    found: list[Names] = []
    while any(wanted.values()):
        order = list(fleet.rack_order)
        # Blocks that change place, few for few crossings.
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 30))):
            a, b = rng.sample(range(len(order)), 2)
            order[a], order[b] = order[b], order[a]
        turn = rng.randrange(len(order))
        order = order[turn:] + order[:turn]
        if wanted.get(fleet.crossings(order), 0) and order not in found:
            wanted[fleet.crossings(order)] -= 1
            found.append(order)
    rng.shuffle(found)
    return found


def prediction(fleet: Fleet, options: argparse.Namespace) -> None:
    """Rank correlation of predicted and measured times of a ring, run by netprobe's own agents."""
    assert fleet.capacity is not None
    orders = stratified(fleet, options.each, options.seed)
    model, size = cost_model("chunked-ring"), options.prediction_size
    predicted = [rough_time_s(model, order, fleet.capacity, size) for order in orders]
    contenders = Contenders(
        proposed=Contender(name="netprobe", order=tuple(fleet.indices(fleet.order))),
        baselines=(
            Contender(name="most expensive", order=tuple(fleet.indices(orders[int(np.argmax(predicted))]))),
        ),
        surveyed=tuple(
            Contender(name=str(i), order=tuple(fleet.indices(order))) for i, order in enumerate(orders)
        ),
    )
    outcome = run_verify(
        fleet.hosts,
        model.name,
        lambda _up, _size: contenders,
        parse_via(fleet.lab.via_template),
        ScanOptions(python=sys.executable),
        VerifyOptions(
            size_bytes=size, comparison=ComparisonOptions(time_s=options.prediction_time, precision=1.0)
        ),
    )
    if outcome.stopped is not None:
        raise SystemExit(f"the agents stopped: {outcome.stopped}")
    measured: list[list[float]] = [[] for _ in orders]
    for one in outcome.record.survey:
        measured[one.order - 2].append(one.seconds)
    took = [float(np.median(seconds)) for seconds in measured]
    rows = []
    for c in sorted({fleet.crossings(order) for order in orders}):
        at = [i for i, order in enumerate(orders) if fleet.crossings(order) == c]
        expected = float(np.median([predicted[i] for i in at]))
        here = [took[i] for i in at]
        spread = f"{min(here):.2f} .. {max(here):.2f}"
        rows.append((c, len(at), f"{expected:.2f} s", f"{np.median(here):.2f} s", spread))
    table(("worst uplink crossed", "orders", "predicted", "measured", "from .. to"), rows)
    found = correlate(predicted, took)
    print(
        f"Kendall's tau-b over {found.orders} orders, {len(measured[0])} runs each by netprobe's agents, "
        f"{size >> 20} MB: {found.tau_b:.2f} (at most {found.ceiling:.2f}, for ties of the prediction)"
    )


@contextmanager
def scanned(
    rate: str, seed: int, measure: str = "rtt", more: Mapping[str, object] | None = None
) -> Iterator[Fleet]:
    """A lab of 16 hosts in 4 racks, uplinks as fast as one host, and what netprobe finds out of it; ``more`` keys of
    the spec, in the place of these."""
    spec = {
        "name": "bench-wire",
        "racks": [4, 4, 4, 4],
        "host_rate": rate,
        "uplink_rate": rate,
        **(more or {}),
    }
    with tempfile.TemporaryDirectory() as folder, temporary(LabSpec.from_spec(spec), seed=seed) as lab:
        yield scan(lab, Path(folder) / "out", measure)


def libraries(fleet: Fleet, parts: Sequence[str], options: argparse.Namespace) -> None:
    """The tables of real libraries."""
    shown = ("netprobe", "random", "random / netprobe", "netprobe / rack order")
    rows = []
    for name, library in (("mpi", fleet.mpi), ("gloo", fleet.gloo)):
        if name in parts:
            with library().open(fleet.hosts, algorithm="ring", start_timeout_s=280.0) as session:
                rows.append(ring_row("ring", session, fleet, options))
    if rows:
        table(("library", *shown, "crossings allow", "share"), rows)
    if "algorithms" in parts:
        for name in options.others.split(","):  # each as it comes: they take minutes
            table(("Open MPI, each in its own order", *shown), [other_row(name, fleet, options)])


def agents(fleet: Fleet, options: argparse.Namespace) -> None:
    """The table of netprobe's agents."""
    for name in options.agents.split(","):  # each as it comes: they take a minute
        cells = by_agents(fleet, name, options)
        table(("agents, each in its own order", "random / netprobe", "pairs", "predicted"), [cells])


def main() -> None:
    """Run the parts and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rate", default="100Mbit/s", help="of a host, and of an uplink")
    parser.add_argument("--size", type=int, default=32 << 20, help="bytes of an all-reduce")
    parser.add_argument("--orders", type=int, default=10, help="random orders")
    parser.add_argument("--repeats", type=int, default=1, help="trials of each random order")
    parser.add_argument("--other-orders", type=int, default=5, help="random orders for each other algorithm")
    parser.add_argument("--others", default=",".join(OTHERS), help=f"some of {','.join(OTHERS)}")
    parser.add_argument("--agents", default=",".join(BY_AGENTS), help=f"some of {','.join(BY_AGENTS)}")
    parser.add_argument("--agents-size", default="4MB", help="of a buffer")
    parser.add_argument("--agents-time", type=int, default=60, help="seconds for each algorithm")
    parser.add_argument(
        "--each", type=int, default=8, help="orders a number of crossings, for the prediction"
    )
    parser.add_argument(
        "--prediction-rate", default="50Mbit/s", help="the less, the less a busy processor shows"
    )
    parser.add_argument("--prediction-size", type=int, default=4 << 20)
    parser.add_argument("--prediction-time", type=float, default=100, help="seconds for its orders")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    parts = options.parts.split(",")
    if not set(parts) <= set(PARTS):
        raise SystemExit(f"--parts: some of {','.join(PARTS)}")
    heading(f"All-reduce of {options.size >> 20} MB on 16 hosts in 4 racks, 4:1 uplinks, shuffled")
    began = time.monotonic()
    if set(parts) & {"mpi", "gloo", "algorithms"}:
        measure = "rtt,capacity" if "algorithms" in parts else "rtt"
        with scanned(options.rate, options.seed, measure) as fleet:
            libraries(fleet, parts, options)
    if set(parts) & {"agents", "prediction"}:
        with scanned(options.prediction_rate, options.seed, "rtt,capacity") as fleet:
            if "agents" in parts:
                agents(fleet, options)
            if "prediction" in parts:
                prediction(fleet, options)
    print(f"load of the machine (1, 5, 15 minutes): {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"wall time: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
