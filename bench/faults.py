"""Scans that are ended by Ctrl-C; then one of 64 hosts that loses agents on its way: 8 killed and 4 frozen at random,
compared with an undisturbed one."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _tables import heading, quantile, table

from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import Event, RoundDone, ignore
from netprobe.probe.records.journal import read_journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan

SPEC = "{name: faults, racks: [16, 16, 16, 16], delay_inside: 100us, delay_between: 300us}"


def agents(lab: Lab) -> dict[str, int]:
    """Process of each host's agent, children of this process."""
    namespaces = {Path(f"/run/netns/{host.target}").stat().st_ino: host.name for host in lab.hosts}
    found = {}
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        try:
            name = namespaces.get(Path(f"/proc/{pid}/ns/net").stat().st_ino)
        except OSError:  # one that was killed before, and is not collected yet
            continue
        if name is not None:
            found[name] = int(pid)
    return found


class Disturber:
    """Kills and freezes agents at random rounds, by a seed."""

    def __init__(self, lab: Lab, *, killed: int, frozen: int, seed: int) -> None:
        draw = random.Random(seed)
        names = draw.sample([host.name for host in lab.hosts], killed + frozen)
        self.signals = {
            name: signal.SIGKILL if i < killed else signal.SIGSTOP for i, name in enumerate(names)
        }
        self._lab = lab
        self._due = sorted((draw.uniform(0.05, 0.9), name) for name in names)

    def __call__(self, event: Event) -> None:
        if not isinstance(event, RoundDone) or not event.rounds_total:
            return
        while self._due and event.rounds_done >= self._due[0][0] * event.rounds_total:
            _when, name = self._due.pop(0)
            os.kill(agents(self._lab)[name], self.signals[name])


def one_scan(lab: Lab, options: ScanOptions, on_event: Callable[[Event], None]) -> tuple[float, Scan]:
    """Wall time and document."""
    began = time.monotonic()
    scan = run_scan(
        read_hosts_file(lab.hosts_path), parse_via(lab.via_template), options, on_event=on_event
    ).scan
    return time.monotonic() - began, scan


def complete(scan: Scan, lost: set[str]) -> int:
    """Links without a reading between hosts that nobody disturbed."""
    well = [i for i, host in enumerate(scan.hosts) if host.name not in lost]
    cells = np.asarray(scan.rtt_s.p10)[np.ix_(well, well)]
    return int(np.isnan(cells).sum()) - len(well)


def interrupted(lab: Lab, presses: int, draw: random.Random) -> tuple[float, str, int, int]:
    """One scan that Ctrl-C ends somewhere in its rounds.

    Seconds from the first press to the end of the process, its exit code and the document's status, the visits of
    the journal that the document lacks, and agents that are left.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        argv = ["scan", "--hosts", str(lab.hosts_path), "--via", lab.via_template, "--python", sys.executable]
        running = subprocess.Popen([sys.executable, "-m", "netprobe", *argv, "--out", str(out), "--quiet"],
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        journal = out / "scan.journal.jsonl"
        try:
            deadline = time.monotonic() + 120
            while not (journal.exists() and b'{"visit"' in journal.read_bytes()):
                if running.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("the scan did not begin")
                time.sleep(0.02)
            time.sleep(draw.uniform(0, 1.5))
            began = time.monotonic()
            for _ in range(presses):
                running.send_signal(signal.SIGINT)
                time.sleep(0.1 if presses > 1 else 0)
            code = running.wait(120)
            took = time.monotonic() - began
        finally:
            running.kill()
            running.wait()
        status = "none"
        visits = 0
        if (out / "scan.json").exists():
            scan = load_document(Scan, out / "scan.json")
            status, visits = scan.status, len(scan.visits)
        lost = len(read_journal(journal).visits) - visits
    left = 0
    for host in lab.hosts:
        listed = subprocess.run(
            ["ip", "netns", "pids", host.target], capture_output=True, text=True, check=True
        )
        left += len(listed.stdout.split())
    return took, f"{code}, {status}", lost, left


def interrupts(repeats: int) -> None:
    """From Ctrl-C to the prompt, on labs of 16 and of 64 hosts."""
    rows = []
    for hosts in (16, 64):
        spec = SPEC.replace("[16, 16, 16, 16]", str([hosts // 4] * 4))
        with temporary(parse_spec(spec), seed=1) as lab:
            for presses in (1, 6):
                draw = random.Random(presses)
                found = [interrupted(lab, presses, draw) for _ in range(repeats)]
                times = [one[0] for one in found]
                rows.append(
                    (
                        hosts, presses, len(found), f"{quantile(times, 0.5):.2f} s", f"{max(times):.2f} s",
                        " and ".join(sorted({one[1] for one in found})), sum(one[2] for one in found),
                        sum(one[3] for one in found),
                    )
                )  # fmt: skip
    heading("Ctrl-C in the rounds of a scan, to the end of the process (six: one every 0.1 s)")
    columns = (
        "hosts", "presses", "scans", "median", "slowest", "exit code, document", "visits lost", "agents left",
    )  # fmt: skip
    table(columns, rows)


def main() -> None:
    """Both in turn, with another draw each time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--probes", type=int, default=100)
    parser.add_argument("--killed", type=int, default=8)
    parser.add_argument("--frozen", type=int, default=4)
    parser.add_argument("--links-at-once", type=int, default=0)
    parser.add_argument(
        "--interrupts", type=int, default=5, metavar="N", help="scans ended by Ctrl-C, of each kind"
    )
    arguments = parser.parse_args()
    if arguments.interrupts:
        interrupts(arguments.interrupts)
    if not arguments.repeats:
        return
    options = ScanOptions(
        python=sys.executable, probes_per_visit=arguments.probes, links_at_once=arguments.links_at_once
    )
    rows, ratios = [], []
    with temporary(parse_spec(SPEC), seed=1) as lab:
        for seed in range(arguments.repeats):
            quiet_s, _ = one_scan(lab, options, ignore)
            disturber = Disturber(lab, killed=arguments.killed, frozen=arguments.frozen, seed=seed)
            sick_s, scan = one_scan(lab, options, disturber)
            lost = set(disturber.signals)
            marked = sum(host.status == "failed" for host in scan.hosts if host.name in lost)
            missing = complete(scan, lost)
            ratios.append(sick_s / quiet_s)
            rows.append(
                (
                    seed,
                    f"{quiet_s:.1f} s",
                    f"{sick_s:.1f} s",
                    f"{ratios[-1]:.2f}",
                    f"{marked} of {len(lost)}",
                    missing,
                )
            )
    heading(
        f"64 hosts, all pairs, {arguments.probes} probes a visit; "
        f"{arguments.killed} agents killed, {arguments.frozen} frozen"
    )
    columns = ("draw", "undisturbed", "disturbed", "ratio", "lost hosts marked", "other links missing")
    table(columns, rows)
    print(f"ratio: median {quantile(ratios, 0.5):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
