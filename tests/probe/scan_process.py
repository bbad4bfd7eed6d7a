"""A scan in a process of its own, for tests that kill or interrupt it: JOURNAL HOSTS INTERVAL_S."""

from __future__ import annotations

import sys
from pathlib import Path

from netprobe.core.hosts import make_host
from netprobe.probe.launchers.exec_launcher import LocalLauncher
from netprobe.probe.records.events import Event, VisitDone
from netprobe.probe.records.journal import Journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import ScanLog, run_scan


def main() -> None:
    """Scan, telling of each visit; the last line says how it ended."""
    journal, count, interval = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    hosts = [make_host(f"h{i}") for i in range(count)]
    options = ScanOptions(interval_s=interval, probes_per_visit=50)

    def tell(event: Event) -> None:
        if isinstance(event, VisitDone):
            sys.stdout.write("visit\n")
            sys.stdout.flush()

    with Journal(journal, hosts, options.as_dict()) as log:
        outcome = run_scan(hosts, LocalLauncher(), options, log=ScanLog(journal=log), on_event=tell)
    sys.stdout.write(f"interrupted={outcome.interrupted} status={outcome.scan.status}\n")


if __name__ == "__main__":
    main()
