"""Where the time of ``netprobe map`` goes: its stages, CPU seconds and memory, and the time of start-up."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

SIZES = ((64, 1.0), (256, 1.0), (256, 0.1), (1024, 1.0))
GOAL_S = {64: 1.0, 256: 2.0, 1024: 10.0}
STAGES = ("load", "embed", "groups", "compare", "outliers", "write")
# What the command imports on its way: start-up, whenever it happens.
LATE = (
    "pydantic",
    "rich.console",
    "scipy.cluster.hierarchy",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.sparse.linalg",
    "netprobe.core.documents.map",
    "netprobe.core.documents.scan",
    "netprobe.pipeline.files",
    "netprobe.pipeline.mapping.map_scan",
    "netprobe.report.terminal",
    "array_api_compat.numpy",
)


def write_scan(path: Path, n: int, share: float, seed: int) -> None:
    """A scan as probing leaves it: five statistics, loss, jitter, and a visit for each link."""
    import numpy as np
    from _datacentre import REPORTED, make_fleet

    from netprobe.core.documents.document import write_document
    from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost

    fleet = make_fleet(n, placement="packed", cell="N3", seed=seed, family=REPORTED)
    rng = np.random.default_rng(seed)
    rtt = np.where(np.eye(n, dtype=bool), np.nan, fleet.rtt_s)
    if share < 1.0:
        chosen = np.triu(rng.random((n, n)) < share, 1)
        rtt = np.where(chosen | chosen.T, rtt, np.nan)
    spread = np.exp(np.abs(rng.normal(0.0, 0.1, (4, n, n))))
    names = [f"host-{i:04d}" for i in range(n)]
    scan = Scan(
        status="ok",
        hosts=[ScannedHost(name=name) for name in names],
        measurements=[Measurement(id="rtt", key="rtt_s", method="udp", unit="s", statistic="p10")],
        rtt_s=RttStatistics(
            min=rtt / spread[0], p10=rtt, p50=rtt * spread[1], p90=rtt * spread[1:3].prod(axis=0),
            p99=rtt * spread[1:].prod(axis=0),
        ),
        loss_ratio=np.where(np.isnan(rtt), np.nan, 0.0),
        ipdv_s=rtt * 0.1,
        visits=_visits(~np.isnan(rtt), names, rng),
        rounds=2 * n,
        duration_s=float(n),
    )  # fmt: skip
    write_document(scan, path)


def _visits(links: Any, names: list[str], rng: Any) -> Any:
    """A visit for each of the (N, N) links, in the order of their rounds."""
    import numpy as np

    from netprobe.core.documents.visits import VisitTable

    src, dst = np.nonzero(links)
    n, count = len(names), len(src)
    rounds = (src + dst) % n + n * (src > dst)
    order = np.argsort(rounds, kind="stable")
    src, dst, rounds = src[order], dst[order], rounds[order]
    same = functools.partial(np.full, count)
    none, probes = same(-1), same(100)
    columns = {
        "round": rounds.astype(np.int64), "started_s": rounds * 0.5 + rng.random(count) * 0.01,
        "duration_s": 0.1 + rng.random(count) * 0.01, "src_port": same(40000, dtype=np.int32),
        "dst_port": same(20000, dtype=np.int32), "sent": probes, "received": probes, "samples": same(99),
        "rejected": same(0), "beside": same(n // 2 - 1), "measurement": same(n), "src": src, "dst": dst,
        "method": same(n + 1), "stamps": same(n + 2), "reason": none, "rest": none,
    }  # fmt: skip
    return VisitTable(columns, [*names, "rtt", "udp", "kernel"])


def one_map(scan: Path, began_s: float) -> dict[str, float]:
    """One ``netprobe map``, run here: CPU seconds of its stages, seconds of all of it and of all before it.

    ``began_s``: when this process was started, on the monotonic clock.
    """
    import importlib

    from netprobe.cli.options.numerics import load_numerics

    load_numerics()
    for name in LATE:
        importlib.import_module(name)
    from netprobe.cli.commands.mapping import map_
    from netprobe.core.documents import document
    from netprobe.pipeline import files
    from netprobe.pipeline.mapping import map_scan as mapping

    spent: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    _timed(document, "load_document", "load", spent)
    _timed(mapping, "fit_embedding", "embed", spent)
    _timed(mapping, "find_groups", "groups", spent)
    _timed(mapping, "compare_methods", "compare", spent)
    _timed(mapping, "outliers_of", "outliers", spent)
    _timed(files, "save", "write", spent)
    start = time.perf_counter()
    cpu = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        map_(scan=scan, out=None, like=None, compare=None, seed=0, force=True, json=False, quiet=False)
    total, cpu = time.perf_counter() - start, time.process_time() - cpu
    return spent | {
        "rest": cpu - sum(spent.values()),
        "cpu": cpu,
        "total": total,
        "start-up": start - began_s,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _timed(module: ModuleType, name: str, stage: str, spent: dict[str, float]) -> None:
    """Put a clock around a function of a module."""
    inner: Callable[..., Any] = getattr(module, name)

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[stage] += time.process_time() - began

    setattr(module, name, outer)


def in_a_child(scan: Path) -> dict[str, float]:
    """`one_map` in a process of its own."""
    # The monotonic clock is the same in both processes.
    command = [sys.executable, __file__, "--child", str(scan), "--began", repr(time.perf_counter())]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="maps a row, medians are shown (default 5)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024], help="hosts")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(one_map(options.child, options.began)))
        return
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: at least 1")
    from _tables import heading, table

    heading(
        "netprobe map of a simulated data centre (cell N3, packed), five statistics and every visit in the scan;\n"
        f"median of {options.repeats} processes. CPU seconds by stage and in all, then seconds by the clock; "
        "start-up (Python and its imports) is in neither."
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n, share in SIZES:
            if n not in options.sizes:
                continue
            scan = Path(folder, f"{n}-{share}", "scan.json")
            scan.parent.mkdir()
            write_scan(scan, n, share, seed=0)
            runs = [in_a_child(scan) for _ in range(options.repeats)]
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            seconds = [f"{middle[key]:.2f}" for key in (*STAGES, "rest", "cpu", "total")]
            goal = f"{GOAL_S[n]:g}" if n in GOAL_S else "-"
            rows.append(
                (n, f"{share:.0%}", *seconds, goal, f"{middle['start-up']:.2f}", f"{middle['mb']:.0f}")
            )
    columns = ("hosts", "pairs", *STAGES, "rest", "CPU s", "clock s", "under", "start-up s", "peak MB")
    table(columns, rows)


if __name__ == "__main__":
    main()
