"""The demo's first attempts over 20 seeds: racks of 6, 6 and 4 under shuffled names."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _tables import heading, quantile, table

SEEDS = 20


def main() -> None:
    """Run the chain once a seed and count how often the groups are the racks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default="racks-6-6-4")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=100)
    options = parser.parse_args()
    right, crossings_right, walls, aris = 0, 0, [], []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            argv = [sys.executable, "-m", "netprobe", "scan", "--lab", options.lab, "--seed", str(seed)]
            began = time.monotonic()
            done = subprocess.run(
                [*argv, "--out", str(Path(folder) / "out"), "--json"],
                capture_output=True,
                text=True,
                timeout=300,
            )
            walls.append(time.monotonic() - began)
        result = json.loads(done.stdout)
        aris.append(result.get("ari", float("nan")))
        right += result.get("ari") == 1.0
        crossings_right += result.get("rack_crossings") == result.get("racks")
    heading(f"First attempts of `netprobe scan --lab {options.lab}` over {options.seeds} seeds")
    table(
        (
            "ARI 1.00 at the first attempt",
            "least crossings possible",
            "lowest ARI",
            "wall time, median",
            "slowest",
        ),
        [
            (
                f"{right} of {options.seeds}",
                f"{crossings_right} of {options.seeds}",
                f"{min(aris):.2f}",
                f"{quantile(walls, 0.5):.1f} s",
                f"{max(walls):.1f} s",
            )
        ],
    )


if __name__ == "__main__":
    main()
