"""Capacities of hosts and uplinks of 4:1 labs, compared with the configured rates of the labs."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _tables import heading, quantile, table

from netprobe.lab import LabSpec, temporary

FRAME_RATIO = 1448 / 1514
"""Payload of TCP in full frames of Ethernet: a lab's rates count frames."""


def main() -> None:
    """Measure some labs and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate-mbit", type=float, default=100)
    options = parser.parse_args()
    rate = options.rate_mbit * 1e6 / 8 * FRAME_RATIO
    errors: dict[str, list[float]] = {"host tx": [], "host rx": [], "group up": [], "group down": []}
    ratios, covered, wholes, walls = [], 0, 0, []
    for seed in range(700, 700 + options.seeds):
        document, wall = measure(seed, f"{options.rate_mbit:g}Mbit/s")
        walls.append(wall)
        for one in document["resources"]:
            errors[one["kind"].replace("_", " ")].append(one["bytes_per_s"] / rate - 1)
            wholes += 1
            high = one["high_bytes_per_s"]
            covered += one["low_bytes_per_s"] <= rate * 1.02 and (high is None or high >= rate * 0.98)
        ratios += [one["ratio"] for one in document["oversubscription"]]
    heading(
        f"Capacity of {options.seeds} labs: 16 hosts of {options.rate_mbit:g} Mbit/s in racks of 4, uplinks 4:1"
    )
    rows = [
        (kind, len(found), f"{100 * quantile(found, 0.5):+.1f} %", f"{100 * max(found, key=abs):+.1f} %")
        for kind, found in errors.items()
    ]
    low, high = min(ratios), max(ratios)
    rows.append(
        ("oversubscription (4.0)", len(ratios), f"{quantile(ratios, 0.5):.2f}", f"{low:.2f} .. {high:.2f}")
    )
    table(("resource", "readings", "median error", "largest error"), rows)
    print(f"intervals that hold the true rate within 2 %: {covered} of {wholes}")
    print(f"wall time of `netprobe capacity`: {quantile(walls, 0.5):.0f} s (22 tests of 1 s)")


def measure(seed: int, rate: str) -> tuple[dict[str, Any], float]:
    """One lab: scan, map, capacity; the document and the seconds of the last one."""
    spec = {"name": "bench-capacity", "racks": [4, 4, 4, 4], "host_rate": rate, "uplink_rate": rate}
    with tempfile.TemporaryDirectory() as folder, temporary(LabSpec.from_spec(spec), seed=seed) as lab:
        out = Path(folder) / "out"
        reach = ["--via", lab.via_template, "--python", sys.executable, "--json"]
        netprobe = [sys.executable, "-m", "netprobe"]
        hosts = ["--hosts", str(lab.hosts_path), "--only", "map", "--out", str(out)]
        subprocess.run([*netprobe, "scan", *hosts, *reach], check=True, capture_output=True, timeout=120)
        began = time.monotonic()
        documents = [str(out / "scan.json"), str(out / "map.json")]
        subprocess.run(
            [*netprobe, "capacity", *documents, "--flows-at-once", "8", *reach],
            check=True,
            capture_output=True,
            timeout=120,
        )
        return json.loads((out / "capacity.json").read_text()), time.monotonic() - began


if __name__ == "__main__":
    main()
