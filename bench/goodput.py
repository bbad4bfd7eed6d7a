"""Goodput of shaped links against a 10 s iperf3, and of a 4:1 fleet with goodput rounds and without."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from _tables import heading, table

from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.pipeline.scanning.goodput import GoodputRequest, Watched, goodput_phases
from netprobe.probe.fleet.fleet import Fleet
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.methods.base import VisitContext
from netprobe.probe.methods.goodput import Goodput
from netprobe.probe.methods.goodput_options import GoodputOptions, parse_size
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.events import ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.rounds.chooser import RoundRobin
from netprobe.probe.scan.session import Phase, run_scan

OPTIONS = ScanOptions(probes_per_visit=30, python=sys.executable)
CONTEXT = VisitContext(round=0, hosts=2, beside=0)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A way to measure, as a user would ask for it."""

    name: str
    method: Goodput


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One direction of the link: what was read, against what the reference has, and the wall time."""

    bytes_per_s: float
    reference: float
    wall_s: float
    flagged: bool

    @property
    def error(self) -> float:
        """Relative, signed."""
        return self.bytes_per_s / self.reference - 1


def goodput_methods(rate: str) -> list[Timed]:
    """iperf3 knows whole seconds only: at a gigabit a number of bytes is the shorter test."""
    size = parse_size("30MB") if rate == "1Gbit/s" else None
    said = f"iperf3, {size.text}" if size is not None else "iperf3, 1 s"
    return [
        Timed(name="built-in TCP, default", method=Goodput(OPTIONS, GoodputOptions(way="tcp"))),
        Timed(name=said, method=Goodput(OPTIONS, GoodputOptions(way="iperf3"), size=size)),
    ]


def reference(lab: Lab, src: int, dst: int) -> float:
    """Bytes a second that the receiver of a 10 s iperf3 counts."""
    one, other = lab.hosts[src], lab.hosts[dst]
    server = subprocess.Popen(
        lab.exec_argv(other.name, ["iperf3", "-s", "-1", "--forceflush"]), stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline().lower():
            pass
        argv = ["iperf3", "-c", other.address, "-t", "10", "-J"]
        done = subprocess.run(
            lab.exec_argv(one.name, argv), capture_output=True, text=True, timeout=30, check=True
        )
        return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 8
    finally:
        server.kill()
        server.wait()


async def shaped(lab: Lab, rate: str, repeats: int) -> dict[str, list[Reading]]:
    """Both directions, the methods in turn."""
    expected = {ends: reference(lab, *ends) for ends in ((0, 1), (1, 0))}
    hosts = read_hosts_file(lab.hosts_path)
    place = {host.name: i for i, host in enumerate(hosts)}
    fleet = Fleet(hosts, parse_via(lab.via_template), OPTIONS, ignore, time.monotonic)
    readings: dict[str, list[Reading]] = {}
    try:
        await fleet.start()
        requested = goodput_methods(rate)
        for way in requested:
            await way.method.prepare(fleet.members)
        for _ in range(repeats):
            for ends in expected:
                src, dst = (fleet.members[place[lab.hosts[end].name]] for end in ends)
                for way in requested:
                    began = time.monotonic()
                    (fields,) = await way.method.visit(src, dst, CONTEXT)
                    wall = time.monotonic() - began
                    if fields.get("goodput") is None:
                        sys.exit(f"{way.name} has no reading: {fields.get('reason')}")
                    readings.setdefault(way.name, []).append(
                        Reading(
                            bytes_per_s=fields["goodput"].bytes_per_s,
                            reference=expected[ends],
                            wall_s=wall,
                            flagged=bool(fields["goodput"].flags),
                        )
                    )
    finally:
        await fleet.end()
    return readings


def shaped_rows(rate: str, readings: dict[str, list[Reading]]) -> list[Sequence[object]]:
    """A row for each way."""
    rows: list[Sequence[object]] = []
    for name, those in readings.items():
        errors = [100 * one.error for one in those]
        walls = [one.wall_s for one in those]
        rows.append(
            (
                rate,
                name,
                f"{statistics.mean(8e-6 * one.reference for one in those):.2f}",
                f"{statistics.median(8e-6 * one.bytes_per_s for one in those):.2f}",
                f"{statistics.median(errors):+.2f} %",
                f"{min(errors):+.2f} .. {max(errors):+.2f} %",
                f"{sum(abs(error) <= 2 for error in errors)} of {len(errors)}",
                sum(one.flagged for one in those),
                f"{statistics.median(walls):.2f} s",
                f"{max(walls):.2f} s",
            )
        )
    return rows


def fleet_row(lab: Lab, name: str, *, rounds_by_group: bool) -> Sequence[object]:
    """A scan of the 4:1 lab: readings of the links between its racks."""
    watched = Watched(RoundRobin())
    (phase,) = goodput_phases(
        OPTIONS, GoodputRequest(options=GoodputOptions(way="tcp", seconds=0.25)), watched
    )
    if not rounds_by_group:
        phase = Phase(method=phase.method, chooser=RoundRobin())
    phases = [Phase(method=Stamp(OPTIONS), chooser=watched), phase]
    outcome = run_scan(read_hosts_file(lab.hosts_path), parse_via(lab.via_template), OPTIONS, phases=phases)
    racks = [host.rack for host in lab.truth().hosts]
    visits = [visit for visit in outcome.visits if visit.goodput is not None]
    across = [
        8e-6 * visit.goodput.bytes_per_s
        for visit in visits
        if visit.goodput is not None and racks[visit.src] != racks[visit.dst]
    ]
    all_rounds = {visit.round for visit in visits}
    seconds = sum(max(v.duration_s for v in visits if v.round == r) for r in all_rounds)
    return (
        name,
        len(all_rounds),
        f"{seconds:.1f} s",
        f"{statistics.median(across):.1f}",
        f"{min(across):.1f} .. {max(across):.1f}",
        f"{sum(value < 0.9 * 95.6 for value in across)} of {len(across)}",
    )


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    rows: list[Sequence[object]] = []
    for rate in ("1Gbit/s", "100Mbit/s"):
        spec = parse_spec(f"{{name: bench-goodput, racks: [2], host_rate: {rate}}}")
        with temporary(spec, seed=1) as lab:
            rows += shaped_rows(rate, asyncio.run(shaped(lab, rate, options.repeats)))
    heading(
        f"Goodput of one shaped link (a lab's rates count frame bytes), {options.repeats} repeats each way; "
        "errors against a 10 s iperf3"
    )
    columns = ("link", "way", "10 s iperf3, Mbit/s", "median, Mbit/s", "median error", "range of errors")
    table((*columns, "within 2 %", "flagged", "a direction, median", "slowest"), rows)
    spec = parse_spec("{name: bench-4to1, racks: [4, 4], host_rate: 100Mbit/s, uplink_rate: 100Mbit/s}")
    with temporary(spec, seed=3) as lab:
        rows = [
            fleet_row(lab, "goodput rounds", rounds_by_group=True),
            fleet_row(lab, "plain round-robin", rounds_by_group=False),
        ]
    heading(
        "Links between the racks of a 4:1 lab (two racks of 4 hosts of 100 Mbit/s, uplinks of 100 Mbit/s); "
        "a link alone has 95.6 Mbit/s"
    )
    table(("rounds", "how many", "testing", "median, Mbit/s", "range, Mbit/s", "more than 10 % low"), rows)


if __name__ == "__main__":
    main()
