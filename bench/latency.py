"""Latency methods side by side: error and CPU at the same probe period, 8 links at a time."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _tables import cpu_s, heading, quantile, table

from netprobe.core.documents.scan import Scan
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, load_spec, temporary
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.journal import Journal
from netprobe.probe.records.options import ScanOptions, StampLevel
from netprobe.probe.rounds.circle import two_passes
from netprobe.probe.scan.session import ScanLog, run_scan

PROBES = 100
ECHO = Path(__file__).with_name("_user_ping.py")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a method read of a link (p10, seconds), and the configured RTT."""

    p10_s: float | None
    configured_s: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One method over all links."""

    readings: list[Reading]
    cpu_s: float
    wall_s: float


def netprobe(lab: Lab, period_s: float, stamps: StampLevel) -> Outcome:
    """The project's own scan."""
    hosts = read_hosts_file(lab.hosts_path)
    options = ScanOptions(
        probes_per_visit=PROBES, interval_s=period_s, precision_s=0, stamps=stamps, python=sys.executable
    )
    began, cpu = time.monotonic(), cpu_s()
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "j", hosts, options.as_dict()) as journal,
    ):
        scan: Scan = run_scan(hosts, parse_via(lab.via_template), options, log=ScanLog(journal=journal)).scan
    truth = lab.truth()
    readings = [
        Reading(p10_s=None if (value := float(scan.rtt_s.p10[i, j])) != value else value, configured_s=rtt)
        for i, row in enumerate(truth.rtt_s.tolist())
        for j, rtt in enumerate(row)
        if i != j
    ]
    return Outcome(readings=readings, cpu_s=cpu_s() - cpu, wall_s=time.monotonic() - began)


def in_rounds(lab: Lab, argv_of: Callable[[str], list[str]], parse: Callable[[str], list[float]]) -> Outcome:
    """Any program that probes one address, run in the same rounds of disjoint links."""
    truth = lab.truth()
    hosts = read_hosts_file(lab.hosts_path)
    index = {host.name: i for i, host in enumerate(truth.hosts)}
    readings = []
    began, cpu = time.monotonic(), cpu_s()
    for links in two_passes(range(len(hosts))):
        running = []
        for link in links:
            src, dst = hosts[link.src], hosts[link.dst]
            argv = lab.exec_argv(src.name, argv_of(dst.address or ""))
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            running.append((index[src.name], index[dst.name], process))
        for src_at, dst_at, process in running:
            output, _ = process.communicate(timeout=60)
            values = parse(output)
            rtt = float(truth.rtt_s[src_at, dst_at])
            p10 = quantile(values, 0.1) if values else None
            readings.append(Reading(p10_s=p10, configured_s=rtt))
    return Outcome(readings=readings, cpu_s=cpu_s() - cpu, wall_s=time.monotonic() - began)


def fping(lab: Lab, period_s: float) -> Outcome:
    """fping at the same period and count."""
    milliseconds = f"{period_s * 1e3:g}"
    return in_rounds(
        lab,
        lambda address: ["fping", "-q", "-C", str(PROBES), "-p", milliseconds, "-i", "1", address],
        lambda text: [
            float(v) / 1e3 for v in re.findall(r"(?<= )\d+\.?\d*(?= |$)", text.partition(" : ")[2].strip())
        ],
    )


def user_ping(lab: Lab, period_s: float) -> Outcome:
    """A UDP ping that reads its clock in user space, the usual script."""
    servers = [
        subprocess.Popen(
            lab.exec_argv(host.name, [sys.executable, str(ECHO), "serve"]), stdout=subprocess.PIPE
        )
        for host in lab.hosts
    ]
    try:
        for server in servers:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        before = cpu_s()
        outcome = in_rounds(
            lab,
            lambda address: [sys.executable, str(ECHO), "ping", address, str(PROBES), str(period_s)],
            lambda text: [float(v) for v in text.split()],
        )
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()
    return Outcome(readings=outcome.readings, cpu_s=cpu_s() - before, wall_s=outcome.wall_s)


def row(name: str, outcome: Outcome) -> Sequence[object]:
    """One line of the table."""
    errors = [1e6 * (r.p10_s - r.configured_s) for r in outcome.readings if r.p10_s is not None]
    within = sum(abs(e) <= 10 for e in errors)
    return (
        name,
        f"{quantile(errors, 0.5):+.1f}",
        f"{min(errors):+.1f} .. {max(errors):+.1f}",
        f"{within} of {len(outcome.readings)}",
        f"{len(outcome.readings) - len(errors)}",
        f"{outcome.cpu_s:.1f}",
        f"{outcome.wall_s:.1f}",
    )


def main() -> None:
    """Every method on one lab, in turn, repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--period", type=float, default=0.001, help="seconds between probes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    methods: dict[str, Callable[[Lab], Outcome]] = {
        "netprobe (kernel stamps)": lambda lab: netprobe(lab, options.period, "kernel"),
        "netprobe, user-space stamps": lambda lab: netprobe(lab, options.period, "user"),
        "fping": lambda lab: fping(lab, options.period),
        "user-space ping": lambda lab: user_ping(lab, options.period),
    }
    collected: dict[str, list[Outcome]] = {name: [] for name in methods}
    with temporary(load_spec("racks-6-6-4"), seed=options.seed) as lab:
        for _ in range(options.repeats):
            for name, method in methods.items():
                collected[name].append(method(lab))
    heading(
        f"p10 of {PROBES} probes {options.period * 1e3:g} ms apart, less the configured RTT (100 / 300 us): "
        f"16 hosts, 240 links, 8 at a time, {options.repeats} repeats"
    )
    columns = ("method", "median error, us", "range, us", "within 10 us", "no reading", "CPU, s", "wall, s")
    rows = []
    for name, outcomes in collected.items():
        rows.append(
            row(
                name,
                Outcome(
                    readings=[r for o in outcomes for r in o.readings],
                    cpu_s=quantile([o.cpu_s for o in outcomes], 0.5),
                    wall_s=quantile([o.wall_s for o in outcomes], 0.5),
                ),
            )
        )
    table(columns, rows)
    print(
        "Nothing is subtracted from a reading. CPU and wall are of one repeat (median): controller and agents, "
        "servers and interpreters started on the way included."
    )


if __name__ == "__main__":
    main()
