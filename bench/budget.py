"""A tenth of the pairs of a large fleet: groups against the truth, and the time from the command to map.json."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _tables import heading, table

from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.lab import Lab, LabSpec, temporary

PROBES = 20


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run of the command."""

    budget: str
    links: int
    pairs: int
    probing_s: float
    total_s: float
    cpu_s: float
    groups: int
    ari: float


def run(lab: Lab, budget: list[str], seed: int) -> Outcome:
    """``netprobe scan`` up to map.json, as a user would run it."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            sys.executable, "-m", "netprobe", "scan", "--hosts", str(lab.hosts_path), "--via", lab.via_template,
            "--python", sys.executable, "--out", folder, "--probes", str(PROBES), "--seed", str(seed), "--quiet",
            "--only", "map", *budget,
        ]  # fmt: skip
        began, before = time.monotonic(), os.times()
        done = subprocess.run(argv, timeout=550, check=False, capture_output=True, text=True)
        total, after = time.monotonic() - began, os.times()
        if done.returncode:
            raise SystemExit(f"netprobe scan failed with exit code {done.returncode}: {done.stderr[-500:]}")
        scan = json.loads((Path(folder) / "scan.json").read_text())
        groups = json.loads((Path(folder) / "map.json").read_text())["groups"]
    truth = {host.name: int(host.rack or 0) for host in lab.hosts}
    names = [host["name"] for host in scan["hosts"]]
    found = {name: place for place, group in enumerate(groups) for name in group["hosts"]}
    read = np.array([[value is not None for value in row] for row in scan["rtt_s"]["p10"]])
    return Outcome(
        budget=" ".join(budget),
        links=int(read.sum()),
        pairs=int(np.triu(read | read.T, 1).sum()),
        probing_s=scan["duration_s"],
        total_s=total,
        cpu_s=sum(after[:4]) - sum(before[:4]),
        groups=len(groups),
        ari=adjusted_rand_index([truth[name] for name in names], [found.get(name, -1) for name in names]),
    )


def main() -> None:
    """The budgets in turn on one lab: staged choice, with and without the second direction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--racks", type=int, default=16)
    parser.add_argument("--hosts-per-rack", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--pairs", default="10%")
    parser.add_argument("--times", default="30s,none")
    options = parser.parse_args()
    spec = {"name": "budget", "racks": [options.hosts_per_rack] * options.racks}
    outcomes = []
    with temporary(LabSpec.from_spec(spec), seed=256) as lab:
        for seed in range(options.repeats):
            for seconds in options.times.split(","):
                limit = [] if seconds == "none" else ["--time", seconds]
                outcomes.append(run(lab, ["--pairs", options.pairs, *limit], seed))
    hosts = options.racks * options.hosts_per_rack
    heading(
        f"{hosts} hosts in {options.racks} racks, {hosts * (hosts - 1) // 2} pairs, {PROBES} probes a visit"
    )
    table(
        ("budget", "pairs read", "links read", "probing", "start to map.json", "CPU", "groups", "ARI"),
        [
            (
                one.budget,
                one.pairs,
                one.links,
                f"{one.probing_s:.1f} s",
                f"{one.total_s:.1f} s",
                f"{one.cpu_s:.0f} s",
                one.groups,
                f"{one.ari:.3f}",
            )
            for one in outcomes
        ],
    )


if __name__ == "__main__":
    main()
