"""What a user waits for before anything is measured: help, and yesterday's result shown again."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _tables import heading, table

from netprobe.core.documents.document import write_document
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost, VisitTable
from netprobe.pipeline.mapping.map_scan import map_scan
from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order

AT_MOST_S = {"--help": 0.2, "scan --help": 0.2, "plan order --help": 0.2, "show 64": 0.5, "show 1024": 2.0}
LIBRARIES = "import numpy, pydantic, rich.console, rich.table, typer, typer.main"
"""What ``show`` cannot do without, and takes its time whatever netprobe does."""


def made(folder: Path, hosts: int) -> Path:
    """A folder as a scan of racks of 32 leaves it, without the table of visits, which is not read."""
    rng = np.random.default_rng(0)
    racks = np.arange(hosts) // 32
    rtt = np.where(racks[:, None] == racks[None, :], 100e-6, 300e-6) + rng.gamma(2.0, 1.5e-6, (hosts, hosts))
    np.fill_diagonal(rtt, np.nan)
    lost = np.where(np.isnan(rtt), np.nan, 0.0)
    scan = Scan(
        status="ok",
        hosts=[ScannedHost(name=f"h{i}", address=f"10.0.{i // 250}.{i % 250 + 1}") for i in range(hosts)],
        measurements=[Measurement(id="rtt", key="rtt_s", method="stamp", unit="s", statistic="p10")],
        rtt_s=RttStatistics(min=rtt, p10=rtt, p50=rtt, p90=rtt * 1.1, p99=rtt * 1.5),
        loss_ratio=lost,
        ipdv_s=rtt * 0.01,
        visits=VisitTable.of([]),
        samples=None,
        rounds=0,
        duration_s=1.0,
    )
    folder.mkdir()
    write_document(scan, folder / "scan.json")
    mapped = map_scan(scan)
    write_document(mapped, folder / "map.json")
    write_document(plan_order(mapped, PlanRequest()), folder / "plan.json")
    return folder


def timed(words: list[str], runs: int, compiled: Path) -> tuple[float, float]:
    """Median seconds by the clock and of the processor, of Python with these words in a process of its own.

    Its modules are compiled in a run before, as those of an installed netprobe are.
    """
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**given, "PYTHONPYCACHEPREFIX": str(compiled)}
    command = [sys.executable, *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    wall, cpu = [], []
    for _ in range(runs):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
        wall.append(time.monotonic() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(wall), statistics.median(cpu)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--hosts", type=int, nargs="*", default=[64, 1024])
    given = parser.parse_args()
    heading("Seconds until help, and a result, are there")
    with tempfile.TemporaryDirectory() as place:
        cases = {"Python alone": ["-c", "pass"], "the libraries of show": ["-c", LIBRARIES]}
        for words in (["--help"], ["scan", "--help"], ["plan", "order", "--help"]):
            cases[" ".join(words)] = ["-m", "netprobe", *words]
        for hosts in given.hosts:
            cases[f"show {hosts}"] = ["-m", "netprobe", "show", str(made(Path(place) / str(hosts), hosts))]
        rows = []
        for name, words in cases.items():
            wall, cpu = timed(words, given.runs, Path(place) / "compiled")
            rows.append([name, f"{wall:.2f}", f"{cpu:.2f}", AT_MOST_S.get(name, "")])
    table(["command", "seconds", "of the processor", "at most"], rows)


if __name__ == "__main__":
    main()
