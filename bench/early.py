"""All pairs of 64 hosts with visits that end once their p10 is known, and with full ones: time and error."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _tables import heading, quantile, table
from numpy.typing import NDArray

from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, LabSpec, temporary
from netprobe.pipeline.scanning.scan import scan
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.options import ScanOptions

JITTER_S = 40e-6
DEFAULT_S = ScanOptions().precision_s


@dataclass(kw_only=True)
class Outcome:
    """The scans of one kind."""

    p10_s: list[NDArray[np.float64]] = field(default_factory=list)
    probing_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)


def scanned(lab: Lab, precision_s: float, outcome: Outcome) -> None:
    """One scan of all pairs."""
    options = ScanOptions(precision_s=precision_s, python=sys.executable)
    hosts, launcher = read_hosts_file(lab.hosts_path), parse_via(lab.via_template)
    with tempfile.TemporaryDirectory() as folder:
        before = _cpu_s()
        made = scan(hosts, launcher=launcher, folder=Path(folder), options=options)
        outcome.cpu_s.append(_cpu_s() - before)
        document = json.loads((Path(folder) / "scan.json").read_text())
    outcome.p10_s.append(np.array(document["rtt_s"]["p10"], dtype=float))
    outcome.probing_s.append(made.duration_s)
    outcome.sent += [visit["sent"] for visit in document["visits"]]
    time.sleep(1.0)


def _cpu_s() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def compare(name: str, spec: dict[str, object], repeats: int) -> list[tuple[object, ...]]:
    """The rows of one network; the two kinds in turn."""
    kinds = {"full visits": Outcome(), "ended early": Outcome()}
    with temporary(LabSpec.from_spec(spec), seed=64) as lab:
        truth = lab.truth().rtt_s
        for _ in range(repeats):
            scanned(lab, 0.0, kinds["full visits"])
            scanned(lab, DEFAULT_S, kinds["ended early"])
    off = ~np.eye(len(truth), dtype=bool)
    full = np.mean(kinds["full visits"].p10_s, axis=0)
    rows: list[tuple[object, ...]] = []
    for kind, one in kinds.items():
        errors = (1e6 * np.concatenate([(p10 - truth)[off] for p10 in one.p10_s])).tolist()
        bias = float(np.nanmedian(1e6 * (np.mean(one.p10_s, axis=0) - full)[off]))
        rows.append(
            (
                name,
                kind,
                f"{np.mean(one.sent):.0f}",
                f"{quantile(one.probing_s, 0.5):.1f} s",
                f"{quantile(one.cpu_s, 0.5):.1f} s",
                f"{np.nanmedian(errors):+.2f}",
                f"{np.nanpercentile(errors, 95):+.2f}",
                f"{bias:+.2f}" if one is not kinds["full visits"] else "",
            )
        )
    return rows


def main() -> None:
    """A quiet network and one with jitter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--racks", default="16,16,16,16")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quiet", action="store_true", help="leave out the network with jitter")
    options = parser.parse_args()
    racks = [int(one) for one in options.racks.split(",")]
    jitter = {"racks": [0, 0], "jitter": f"{1e6 * JITTER_S:g}us"}
    between = {"racks": [0, 1], "jitter": f"{1e6 * JITTER_S:g}us"}
    rows = compare("quiet", {"name": "early", "racks": racks}, options.repeats)
    if not options.quiet:
        rows += compare(
            f"up to {1e6 * JITTER_S:.0f} us of jitter in and between racks 0 and 1",
            {"name": "early", "racks": racks, "faults": [jitter, between]},
            options.repeats,
        )
    heading(
        f"p10 of all {sum(racks) * (sum(racks) - 1)} links of {sum(racks)} hosts, at most 100 probes 1 ms apart, "
        f"less the configured RTT; visits end once p10 is known to {1e6 * DEFAULT_S:g} us, or never; "
        f"{options.repeats} scans of each in turn"
    )
    table(
        (
            "network", "visits", "probes a visit", "probing, median", "CPU, median", "median error, us",
            "95th percentile, us", "less the full visits', median, us",
        ),
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
