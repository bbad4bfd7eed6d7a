"""What hosts that do not answer, or slowly, cost a scan of all pairs: its rounds next to those of a healthy fleet."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
from _simulated import RUN_S, STOP_S, Faults, simulated_scan
from _tables import heading, table
from faults import agents

from netprobe.core.documents.scan import Scan
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.lab.running.fleet import set_value
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import AgentsUp, Event
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan

RATIO, AT_LEAST_S = 1.5, 3.0
"""What a fault may cost: so many times the healthy scan, or so much more."""
CASES = ("healthy", "one silent", "two silent", "a tenth silent", "one way", "hung", "slow", "swapping")


def sick(case: str, hosts: int) -> list[int]:
    """Which hosts a case is about."""
    if case == "healthy":
        return []
    count = {"two silent": 2, "a tenth silent": max(1, round(hosts / 10))}.get(case, 1)
    return [1 + i * hosts // count for i in range(count)]


def faults(case: str, hosts: int) -> Faults:
    """Of a simulated fleet."""
    those = frozenset(sick(case, hosts))
    if case.endswith("silent"):
        return Faults(unheard=lambda src, dst: src in those or dst in those)
    if case == "one way":
        return Faults(unheard=lambda _src, dst: dst in those)
    none: frozenset[int] = frozenset()
    named = {name: those if name == case else none for name in ("hung", "slow", "swapping")}
    return Faults(hung=named["hung"], slow=named["slow"], swapping=named["swapping"])


@contextmanager
def disturbed(lab: Lab, case: str) -> Iterator[Callable[[Event], None]]:
    """A lab with a case's fault; the function receives the scan's events."""
    names = [host.name for host in lab.hosts]
    those = [names[i] for i in sick(case, len(names))]
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def stop_and_go(pids: list[int]) -> None:
        stop_s, run_s = {"hung": (1e9, 0.0), "slow": (0.45, 0.05), "swapping": (STOP_S, RUN_S)}[case]
        ended.wait(0.5)
        while not ended.is_set():
            for number, seconds in ((signal.SIGSTOP, stop_s), (signal.SIGCONT, run_s)):
                for pid in pids:
                    with suppress(ProcessLookupError):  # one that was called hung, and ended
                        os.kill(pid, number)
                ended.wait(min(seconds, 600))

    def on_event(event: Event) -> None:
        if isinstance(event, AgentsUp) and case in ("hung", "slow", "swapping"):
            running = agents(lab)
            threads.append(threading.Thread(target=stop_and_go, args=([running[name] for name in those],)))
            threads[0].start()

    if case.endswith("silent"):
        for name in those:
            set_value(lab, name, "down", "true")
    if case == "one way":
        for other in names:
            if other not in those:
                set_value(lab, f"{other}>{those[0]}", "drop", "true")
    try:
        yield on_event
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        set_value(lab, "all", "faults", "none")


def real_scan(lab: Lab, case: str, probes: int) -> Scan:
    """One scan of a lab."""
    with disturbed(lab, case) as on_event:
        options = ScanOptions(python=sys.executable, probes_per_visit=probes, audit=False)
        return run_scan(
            read_hosts_file(lab.hosts_path), parse_via(lab.via_template), options, on_event=on_event
        ).scan


def row(case: str, scan: Scan, healthy_s: float) -> tuple[object, ...]:
    """What a scan took, what it may take, and whether all links between healthy hosts have a reading."""
    hosts = len(scan.hosts)
    well = [i for i in range(hosts) if i not in sick(case, hosts)]
    missing = int(np.isnan(np.asarray(scan.rtt_s.p10)[np.ix_(well, well)]).sum()) - len(well)
    waited = sum(visit.sent > 0 and visit.received == 0 for visit in scan.visits)
    calls_s = ScanOptions().silence_s if case in ("hung", "slow", "swapping") else 0.0
    limit_s = max(RATIO * healthy_s, healthy_s + (0.0 if calls_s else AT_LEAST_S)) + calls_s
    took = scan.duration_s
    return (
        hosts, case, len(sick(case, hosts)), f"{took:.1f} s", f"{took / healthy_s:.2f}", f"{limit_s:.1f} s",
        "yes" if took <= limit_s else "NO", waited, missing,
    )  # fmt: skip


def main() -> None:
    """Real labs, then simulated fleets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", default="12", help="hosts of the labs; empty: none")
    parser.add_argument("--simulated", default="12,64,256", help="hosts of the simulated fleets; empty: none")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--probes", type=int, default=100)
    options = parser.parse_args()
    cases = ["healthy", *(case for case in options.cases.split(",") if case != "healthy")]
    columns = (
        "hosts",
        "fault",
        "of hosts",
        "rounds took",
        "ratio",
        "may take",
        "within",
        "dead visits",
        "missing",
    )
    for title, sizes in (
        ("real agents on labs", options.real),
        ("simulated agents and time", options.simulated),
    ):
        rows = []
        for hosts in (int(size) for size in sizes.split(",") if size):
            for case, scan in scans(title, hosts, cases, options.probes):
                if case == "healthy":
                    healthy_s = scan.duration_s
                rows.append(row(case, scan, healthy_s))
        if rows:
            heading(f"scans of all pairs, {options.probes} probes a visit, {title}")
            table(columns, rows)


def scans(title: str, hosts: int, cases: list[str], probes: int) -> Iterator[tuple[str, Scan]]:
    """A scan a case."""
    if title.startswith("simulated"):
        for case in cases:
            yield case, simulated_scan(hosts, faults(case, hosts), probes=probes).scan
        return
    with temporary(
        parse_spec(f"{{name: silent, racks: [{hosts // 2}, {hosts - hosts // 2}]}}"), seed=1
    ) as lab:
        for case in cases:
            yield case, real_scan(lab, case, probes)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
