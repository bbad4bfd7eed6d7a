"""`netprobe doctor --hosts`: what every host lacks, before a scan."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from tests.probe.conftest import agents_of

LOGIN = """#!/bin/sh
case $1 in
  gone) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255 ;;
esac
shift
exec "$@"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> list[str]:
    (tmp_path / "login").write_text(LOGIN)
    (tmp_path / "login").chmod(0o755)
    (tmp_path / "hosts").write_text("a address=127.0.0.1\nb address=127.0.0.2\ngone address=127.0.0.3\n")
    return ["doctor", "--hosts", str(tmp_path / "hosts"), "--via", f"{tmp_path / 'login'} {{target}}"]


def test_each_host_is_reported_and_what_is_missing_has_its_price(
    fleet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*fleet, "--port-range", "20400-20420", "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    hosts = {host["host"]: host for host in data["hosts"]}
    assert data["exit_code"] == 3 and set(hosts) == {"a", "b", "gone"}
    assert hosts["a"]["status"] == "ok" and 20400 <= hosts["a"]["port"] <= 20420
    assert hosts["a"]["stamps"] == "kernel" and hosts["a"]["agent"]["python"]
    assert abs(hosts["a"]["clock_offset_s"]) < 60  # one clock, read twice
    assert hosts["a"]["audit"]["cores"] >= 1 and hosts["a"]["own_addresses"] is not None
    (gone,) = [lack for lack in data["missing"] if lack["hosts"] == ["gone"]]
    assert gone["what"] == "no route to it" and "no link" in gone["costs"]
    assert agents_of(os.getpid()) == []


def test_the_table_names_what_it_costs(fleet: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fleet) == 3
    out = capsys.readouterr().out
    assert "gone: no route to it. No link of theirs can be measured.\n" in out
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["a", "b", "gone"]


def test_where_no_host_can_be_probed_the_exit_code_is_4(tmp_path: Path) -> None:
    assert run(["doctor", "--hosts", "a,b", "--via", "local", "--python", "/no/such/python3"]) == 4


def test_a_host_without_programs_or_kernel_stamps_is_told_what_it_costs() -> None:
    from netprobe.core.hosts import make_host
    from netprobe.pipeline.doctor.hosts import report
    from netprobe.probe.audit.audit import parse_audit
    from netprobe.probe.audit.examine import Findings

    audit = parse_audit({
        "type": "audited", "cores": 2, "delay_p50_ns": 0, "delay_p99_ns": 0, "raw_icmp": False,
        "programs": {"iperf3": None, "fping": "fping: Version 5.1"},
    })  # fmt: skip
    found = Findings(
        host=make_host("a"), status="ok", reason=None, port=9, stamps="user", audit=audit,
        own_addresses=("127.0.1.1",), clock_offset_s=-90.0,
    )  # fmt: skip
    made = report([found])
    assert made.exit_code == 0
    assert [lack.what.split(" (")[0] for lack in made.lacks] == [
        "no kernel time stamps",
        "no iperf3",
        "no raw sockets",
        "their own names lead to loopback there",
        "a clock more than 2 s off the controller's",
    ]


def test_a_quiet_doctor_leaves_the_exit_code(fleet: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*fleet, "-q"]) == 3
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arrives", "blamed", "said"),
    [
        ({}, (), "6 links of a ring tried: UDP passes on 6 of them, TCP passes on 6 of them, packets"),
        # b lets nothing in by UDP, and so hears no answer from a and c either.
        (
            {"ab": "udp", "cb": "udp", "ba": "udp", "bc": "udp"},
            ("b",),
            "UDP passes on 2 of them, TCP passes on 6",
        ),
        ({"ab": "udp"}, ("b",), "UDP passes on 5 of them, TCP passes on 6"),
        ({"ab": "tcp", "cb": "tcp"}, ("b",), "UDP passes on 6 of them, TCP passes on 4"),
        ({"ca": "udp tcp"}, ("a",), "UDP passes on 5 of them, TCP passes on 5"),
        ({"ac": "mtu"}, ("c",), "packets as large as the interfaces take on 5"),
        (
            dict.fromkeys(("ab", "bc", "ca", "ba", "cb", "ac"), "udp"),
            ("a", "b", "c"),
            "UDP passes on 0 of them",
        ),
    ],
)
def test_what_does_not_arrive_is_said_of_the_host_that_it_does_not_reach(
    arrives: dict[str, str], blamed: tuple[str, ...], said: str
) -> None:
    """``arrives`` has what is dropped on a link, by the names of its ends."""
    from netprobe.core.hosts import make_host
    from netprobe.pipeline.doctor.hosts import passing_text, report
    from netprobe.probe.audit.audit import parse_audit
    from netprobe.probe.audit.examine import Findings
    from netprobe.probe.methods.blocked import Arrival

    audit = parse_audit({
        "type": "audited", "cores": 2, "delay_p50_ns": 0, "delay_p99_ns": 0, "raw_icmp": True, "mtu": 1500,
        "programs": {"iperf3": "3", "fping": "5"},
    })  # fmt: skip

    def arrival(src: str, dst: str) -> Arrival:
        dropped = arrives.get(src + dst, "").split()
        mtu = None if "udp" in dropped else 1400 if "mtu" in dropped else 1500
        return Arrival(src=src, udp="udp" not in dropped, tcp="tcp" not in dropped, mtu_bytes=mtu)

    findings = [
        Findings(
            host=make_host(name), status="ok", reason=None, port=9, stamps="kernel", audit=audit,
            own_addresses=("10.0.0.1",), clock_offset_s=0.0,
            arrivals=tuple(arrival(src, name) for src in "abc" if src != name),
        )
        for name in "abc"
    ]  # fmt: skip
    lacks = report(findings).lacks
    assert [lack.hosts for lack in lacks] == ([blamed] if blamed else [])
    assert said in passing_text(findings)
