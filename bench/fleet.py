"""All pairs of 64 hosts at a probe a millisecond: time, error, CPU and memory for several caps of links at once."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _tables import cpu_s, heading, quantile, table
from scan import family, memory_bytes

from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, LabSpec, temporary
from netprobe.probe.rounds.circle import Link, two_passes

PROBES, PERIOD_S = 100, 0.001
SPEC = {"name": "fleet", "racks": [16, 16, 16, 16]}
CHILD = """
import json, resource, sys
from pathlib import Path
from netprobe.core.hosts import read_hosts_file
from netprobe.pipeline.scanning.scan import scan
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.launchers.via import parse_via
hosts, via, out, cap = sys.argv[1:]
options = ScanOptions(links_at_once=int(cap), precision_s=0, python=sys.executable)
made = scan(read_hosts_file(Path(hosts)), launcher=parse_via(via), folder=Path(out), options=options)
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"duration_s": made.duration_s, "status": made.status, "peak_kb": usage[0].ru_maxrss,
                  "agent_kb": usage[1].ru_maxrss, "cpu_s": [u.ru_utime + u.ru_stime for u in usage]}))
"""


@dataclass(kw_only=True)
class Outcome:
    """One method over the links it read."""

    name: str
    errors_us: list[float] = field(default_factory=list)
    links: int = 0
    probing_s: float = 0.0
    cpu_s: float = 0.0
    agents_cpu_s: float = 0.0
    """That of the hosts alone, their start included; of fping all of it."""
    controller_mb: float | None = None
    agent_mb: float | None = None


def netprobe(lab: Lab, cap: int) -> Outcome:
    """A scan of all pairs with at most ``cap`` links at once (0: no cap)."""
    largest = {"agent": 0}
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-c", CHILD, str(lab.hosts_path), lab.via_template, folder, str(cap)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

        def watch() -> None:
            while process.poll() is None:
                for pid in family(process.pid)[1:3]:  # all agents are equivalent
                    largest["agent"] = max(largest["agent"], memory_bytes([pid], "Rss"))
                time.sleep(0.5)

        watching = threading.Thread(target=watch)
        watching.start()
        said, _ = process.communicate(timeout=500)
        watching.join()
        if process.returncode:
            raise SystemExit(f"the scan failed with exit code {process.returncode}")
        report = json.loads(said)
        scan = json.loads((Path(folder) / "scan.json").read_text())
    p10 = np.array(scan["rtt_s"]["p10"], dtype=float)
    off = ~np.eye(len(p10), dtype=bool)
    errors = 1e6 * (p10 - lab.truth().rtt_s)[off]
    return Outcome(
        name=f"netprobe, {cap or len(p10) // 2} links at once",
        errors_us=errors[~np.isnan(errors)].tolist(),
        links=int(off.sum()),
        probing_s=report["duration_s"],
        cpu_s=sum(report["cpu_s"]),
        agents_cpu_s=report["cpu_s"][1],
        controller_mb=report["peak_kb"] / 1e3,
        agent_mb=largest["agent"] / 1e6,
    )


def fping(lab: Lab, cap: int, rounds: int) -> Outcome:
    """fping at the same period over the links of the first rounds, ``cap`` at once."""
    hosts, truth = read_hosts_file(lab.hosts_path), lab.truth()
    outcome = Outcome(name=f"fping, {cap} links at once, {rounds} rounds of them")
    began, cpu = time.monotonic(), cpu_s()
    for links in two_passes(range(len(hosts)))[:rounds]:
        for start in range(0, len(links), cap):
            outcome.errors_us += fping_at_once(lab, hosts, truth.rtt_s, links[start : start + cap])
            outcome.links += len(links[start : start + cap])
    outcome.probing_s, outcome.cpu_s = time.monotonic() - began, cpu_s() - cpu
    outcome.agents_cpu_s = outcome.cpu_s
    return outcome


def fping_at_once(lab: Lab, hosts: Sequence[object], rtt_s: object, links: Sequence[Link]) -> list[float]:
    """Errors in microseconds of the links that gave a reading."""
    running = []
    for link in links:
        src, dst = hosts[link.src], hosts[link.dst]
        argv = ["fping", "-q", "-C", str(PROBES), "-p", f"{PERIOD_S * 1e3:g}", "-i", "1", dst.address]  # type: ignore[attr-defined]
        argv = lab.exec_argv(src.name, argv)  # type: ignore[attr-defined]
        running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    errors = []
    for link, process in zip(links, running, strict=True):
        text, _ = process.communicate(timeout=60)
        values = [float(v) for v in re.findall(r"(?<= )\d+\.?\d*(?= |$)", text.partition(" : ")[2].strip())]
        if values:
            errors.append(1e3 * quantile(values, 0.1) - 1e6 * float(rtt_s[link.src, link.dst]))  # type: ignore[index]
    return errors


def main() -> None:
    """Every cap in turn on one lab."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caps", default="8,16,0")
    parser.add_argument("--fping-rounds", type=int, default=6)
    options = parser.parse_args()
    outcomes = []
    with temporary(LabSpec.from_spec(SPEC), seed=64) as lab:
        size = len(lab.hosts)
        for cap in map(int, options.caps.split(",")):
            outcomes.append(netprobe(lab, cap))
        outcomes.append(fping(lab, 8, options.fping_rounds))
    ideal = 2 * (size - 1) * PROBES * PERIOD_S
    heading(
        f"{size} hosts, {size * (size - 1)} links, {PROBES} probes {PERIOD_S * 1e3:g} ms apart; "
        f"uncapped rounds x probes x period = {ideal:.1f} s"
    )
    rows = [
        (
            one.name,
            one.links,
            f"{one.probing_s:.1f} s ({one.probing_s / ideal:.2f}x)"
            if one.controller_mb
            else f"{one.probing_s:.1f} s",
            f"{quantile(one.errors_us, 0.5):+.1f}",
            f"{min(one.errors_us):+.1f} .. {max(one.errors_us):+.1f}",
            f"{sum(abs(e) <= 10 for e in one.errors_us)}",
            f"{1e6 * one.agents_cpu_s / (one.links * PROBES):.0f}",
            f"{1e6 * one.cpu_s / (one.links * PROBES):.0f}",
            "" if one.controller_mb is None else f"{one.controller_mb:.0f} / {one.agent_mb:.1f}",
        )
        for one in outcomes
    ]
    table(
        (
            "method", "links", "probing", "median error, us", "range, us", "within 10 us",
            "CPU of hosts, us a probe", "of all", "controller / agent, MB",
        ),
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
