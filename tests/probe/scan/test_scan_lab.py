"""Scans of a real network: namespaces joined by the lab's switch, with delays that are known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, parse_spec, temporary
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import AgentsUp, Event, ScanWarning
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan

pytestmark = pytest.mark.lab

SPEC = "{name: probes, racks: [3, 3], delay_inside: 50us, delay_between: 150us}"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec(SPEC), seed=11, sshd=True) as lab:
        yield lab


def test_links_read_no_less_than_is_configured_and_the_tiers_stand_apart(lab: Lab) -> None:
    """How near they read is bench/latency.py's to say: a busy machine makes links slower, and none faster."""
    hosts = read_hosts_file(lab.hosts_path)
    scan = run_scan(hosts, parse_via(lab.via_template), ScanOptions(python=sys.executable)).scan
    assert scan.status == "ok"
    assert {visit.stamps for visit in scan.visits} == {"kernel"}
    assert {host.address for host in scan.hosts} == {host.address for host in lab.hosts}
    assert {h.agent.hostname for h in scan.hosts if h.agent} == {host.name for host in lab.hosts}
    least, links = scan.rtt_s.min, ~np.eye(len(hosts), dtype=bool)
    racks = np.array([lab.host(host.name).rack for host in hosts])
    inside = racks[:, None] == racks[None, :]
    configured_s = np.where(inside, 100e-6, 300e-6)
    assert np.all(scan.rtt_s.p10[links] >= least[links]) and np.all((least - configured_s)[links] > -1e-6)
    assert np.median(least[inside & links]) < np.median(least[~inside])


def test_addresses_come_from_the_agents_when_none_is_given(lab: Lab) -> None:
    hosts = [h.model_copy(update={"address": None}) for h in read_hosts_file(lab.hosts_path)[:3]]
    events: list[Event] = []
    options = ScanOptions(probes_per_visit=10, python=sys.executable)
    scan = run_scan(hosts, parse_via("ip netns exec {target}"), options, on_event=events.append).scan
    assert scan.status == "ok"
    assert [host.address for host in scan.hosts] == [lab.host(host.name).address for host in hosts]
    (up,) = [event for event in events if isinstance(event, AgentsUp)]
    assert up.up == 3


def test_a_namespace_that_is_not_there_is_said_and_the_rest_is_scanned(lab: Lab) -> None:
    hosts = list(read_hosts_file(lab.hosts_path)[:3])
    hosts[1] = hosts[1].model_copy(update={"target": "no-such-namespace"})
    options = ScanOptions(probes_per_visit=10, python=sys.executable)
    scan = run_scan(hosts, parse_via("ip netns exec {target}"), options).scan
    assert [host.status for host in scan.hosts] == ["ok", "unreachable", "ok"]
    assert scan.hosts[1].reason == "there is no network namespace no-such-namespace"


def test_a_host_whose_probes_are_dropped_is_waited_for_a_few_times_only() -> None:
    spec = "{name: silent, racks: [6, 6], shuffle: false, faults: [{host: rack0/1, down: true}]}"
    warnings: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, ScanWarning):
            warnings.append(event.text)

    with temporary(parse_spec(spec), seed=3) as lab:
        options = ScanOptions(probes_per_visit=20, python=sys.executable, audit=False)
        hosts = read_hosts_file(lab.hosts_path)
        scan = run_scan(hosts, parse_via(lab.via_template), options, on_event=note).scan
        down = next(i for i, host in enumerate(hosts) if host.name == "r0h1")
    well = [i for i in range(12) if i != down]
    assert np.isfinite(scan.rtt_s.p10[np.ix_(well, well)]).sum() == 110
    assert np.isnan(scan.rtt_s.p10[down]).all() and scan.status == "partial"
    # Before, all of its 22 links were waited for, and then again.
    assert sum(visit.sent > 0 and visit.received == 0 for visit in scan.visits) <= 5
    (left,) = [text for text in warnings if "leaves the rounds" in text]
    assert left.startswith(f"rtt: {hosts[down].name} leaves the rounds")


SSH_SCAN = """
import sys
from pathlib import Path
from netprobe.core.errors import NetprobeError
from netprobe.core.hosts import read_hosts_file
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan
from netprobe.probe.launchers.via import LaunchOptions, parse_via
launcher = parse_via("ssh", LaunchOptions(ssh_config=Path(sys.argv[2]), ssh_options=sys.argv[3:]))
try:
    scan = run_scan(read_hosts_file(Path(sys.argv[1])), launcher, ScanOptions(probes_per_visit=20)).scan
    sys.stdout.write(f"{scan.status} {[h.reason for h in scan.hosts if h.reason]} {len(scan.visits)}")
except NetprobeError as error:
    sys.stdout.write(f"exit {error.exit_code}: {error}")
"""


def scan_over_ssh(lab: Lab, *options: str) -> str:
    assert lab.ssh_config_path is not None
    argv = [sys.executable, "-c", SSH_SCAN, str(lab.hosts_path), str(lab.ssh_config_path), *options]
    done = subprocess.run(lab.exec_argv(None, argv), capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def test_a_scan_over_ssh_honours_the_users_configuration(lab: Lab) -> None:
    assert scan_over_ssh(lab) == "ok [] 30"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("UserKnownHostsFile=/dev/null", "its host key is unknown: log in once by ssh"),
        ("PubkeyAuthentication=no", "permission denied: ssh "),
        ("Port=9", "connection refused: does sshd run there"),
        ("HostName=no.such.host.invalid", "its name no.such.host.invalid cannot be resolved"),
        ("NoSuchOption=1", "ssh refuses an option: "),
    ],
)
def test_what_ssh_refuses_is_one_clear_line(lab: Lab, option: str, said: str) -> None:
    text = scan_over_ssh(lab, option)
    assert text.startswith("exit 4: no link could be measured: ")
    assert said in text and "\n" not in text
