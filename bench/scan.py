"""A whole scan of 16 hosts: start to scan.json, memory of controller and agents, and `--help`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _tables import heading, quantile, table

from netprobe.lab import Lab, load_spec, temporary

PAIRS = 120


def family(root: int) -> list[int]:
    """A process and all below it."""
    found, frontier = [root], [root]
    while frontier:
        pid = frontier.pop()
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            children = [int(word) for task in tasks for word in (task / "children").read_text().split()]
        except OSError:  # it has just ended
            continue
        found += children
        frontier += children
    return found


def memory_bytes(pids: list[int], key: str) -> int:
    """Sum of ``Pss`` or ``Rss`` over processes; one that has gone counts nothing."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{key}:"))
    return total


def one_scan(lab: Lab) -> tuple[float, float, int, int, int]:
    """Wall time, the document's own duration, the peaks of PSS and RSS while it ran, and the probes sent."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        argv = [sys.executable, "-m", "netprobe", "scan", "--hosts", str(lab.hosts_path), "--only", "scan"]
        began = time.monotonic()
        process = subprocess.Popen([*argv, "--via", lab.via_template, "--out", str(out), "--quiet"])
        pss = rss = 0
        done = 0.0
        while process.poll() is None:
            if not done and (out / "scan.json").exists():
                done = time.monotonic() - began
            pids = family(process.pid)
            pss, rss = max(pss, memory_bytes(pids, "Pss")), max(rss, memory_bytes(pids, "Rss"))
            time.sleep(0.1)
        wall = time.monotonic() - began
        if process.returncode:
            raise SystemExit(f"the scan failed with exit code {process.returncode}")
        scan = json.loads((out / "scan.json").read_text())
        read = {frozenset((v["src"], v["dst"])) for v in scan["visits"] if v["samples"]}
        if len(read) < PAIRS:
            raise SystemExit(f"{len(read)} of {PAIRS} pairs were read")
        return done or wall, float(scan["duration_s"]), pss, rss, sum(v["sent"] for v in scan["visits"])


def help_seconds() -> float:
    """`netprobe --help` once."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "netprobe", "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def main() -> None:
    """Repeat and print medians and the worst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with temporary(load_spec("racks-6-6-4"), seed=1) as lab:
        scans = [one_scan(lab) for _ in range(options.repeats)]
    helps = [help_seconds() for _ in range(4 * options.repeats)]
    heading(f"16 hosts, {PAIRS} pairs, {options.repeats} repeats")
    rows = [
        (
            name,
            f"{quantile(values, 0.5) / scale:.{digits}f} {unit}".rstrip(),
            f"{max(values) / scale:.{digits}f} {unit}".rstrip(),
        )
        for name, values, scale, digits, unit in (
            ("start to scan.json", [s[0] for s in scans], 1.0, 1, "s"),
            ("of it probing", [s[1] for s in scans], 1.0, 1, "s"),
            ("probes sent", [float(s[4]) for s in scans], 1.0, 0, ""),
            ("controller and 16 agents, PSS", [float(s[2]) for s in scans], 1e6, 0, "MB"),
            ("controller and 16 agents, RSS", [float(s[3]) for s in scans], 1e6, 0, "MB"),
            ("netprobe --help", helps, 1e-3, 0, "ms"),
        )
    ]
    table(("what", "median", "worst"), rows)


if __name__ == "__main__":
    main()
