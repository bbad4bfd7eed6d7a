"""Options are checked once, and all faults are reported at once."""

from __future__ import annotations

from typing import Any

import pytest

from netprobe.core.errors import InputError
from netprobe.probe.methods.path import Path
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.methods.tcp_connect import TcpConnect
from netprobe.probe.records.options import ScanOptions


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"probes_per_visit": 0}, "0 probes"),
        ({"probes_per_visit": 10**9}, "1 to 100000"),
        ({"interval_s": 0.0}, "interval"),
        ({"interval_s": float("nan")}, "interval"),
        ({"precision_s": -1e-6}, "a precision of"),
        ({"precision_s": float("nan")}, "a precision of"),
        ({"timeout_s": float("inf")}, "time-out"),
        ({"port_range": (9, 8)}, "port range 9-8"),
        ({"port_range": (0, 8)}, "port range"),
        ({"port_range": (1, 70000)}, "port range"),
        ({"lease_s": 0.1}, "lease"),
        ({"start_timeout_s": -1}, "start time-out"),
        ({"stamps": "hardware"}, "stamps"),
        ({"family": "ipx"}, "family"),
        ({"latency": "ping"}, "latency 'ping' is not one of"),
        ({"latency": "icmp", "source_ports": 2}, "icmp has none"),
        ({"latency": "icmp", "probes_per_visit": 20_000}, "1 to 10000 are allowed with --latency icmp"),
        ({"latency": "fping", "interval_s": 0.0005}, "fping needs 0.001 s"),
        ({"source_ports": 0}, "0 source ports"),
        ({"seed": -1}, "seed"),
        ({"subnet": "10.0.0/99"}, "subnet"),
    ],
)
def test_impossible_values_are_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        ScanOptions(**fields)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InputError, match=r"0 probes .*; an interval .*; seed"):
        ScanOptions(probes_per_visit=0, interval_s=-1, seed=-5)


def test_the_defaults_are_good_and_are_plain_data() -> None:
    options = ScanOptions(port_range=(5000, 5010), subnet="10.0.0.1/8")
    data = options.as_dict()
    assert data["probes_per_visit"] == 100 and data["port_range"] == [5000, 5010]
    assert options.visit_deadline_s < 10


def test_what_was_chosen_of_addresses_and_ports_is_in_the_document() -> None:
    options = ScanOptions(port_range=(9000, 9010), subnet="fd00::/64", interface="eth1", family="ipv6")
    for method in (Stamp(options), TcpConnect(options), Path(options, "udp")):
        parameters = method.measurement.parameters
        assert {key: parameters[key] for key in ("family", "port_range", "subnet", "interface")} == {
            "family": "ipv6",
            "port_range": [9000, 9010],
            "subnet": "fd00::/64",
            "interface": "eth1",
        }
