"""Goodput on this machine: which way is chosen, and that a bad iperf3 costs its links alone."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.probe.flows.flows import Flow, FlowResult
from netprobe.probe.launchers.exec_launcher import LocalLauncher
from netprobe.probe.methods import goodput_iperf3
from netprobe.probe.methods.goodput import Goodput, goodput_methods
from netprobe.probe.methods.goodput_options import (
    GoodputOptions,
    parse_size,
    parse_sizes,
    parse_streams,
)
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import ScanOutcome
from netprobe.probe.rounds.circle import Link
from netprobe.probe.rounds.goodput_rounds import GoodputRounds
from netprobe.probe.scan.session import Phase, run_scan
from tests.probe.conftest import AgentProcess, hosts_named, is_running, wait_until

needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
REAL = shutil.which("iperf3")
OPTIONS = ScanOptions(probes_per_visit=5, interval_s=0.0005, retries=1, audit=False)


def scan(methods: list[Goodput], links: list[Link], names: str = "abc") -> ScanOutcome:
    """A scan of agents on this machine, by RTT and then by these methods over these links."""
    from netprobe.probe.methods.stamp import Stamp
    from netprobe.probe.rounds.chooser import RoundRobin

    rtt = Phase(method=Stamp(OPTIONS), chooser=RoundRobin())
    phases = [Phase(method=m, chooser=GoodputRounds(lambda _results: [], links)) for m in methods]
    return run_scan(hosts_named(*names), LocalLauncher(), OPTIONS, phases=[rtt, *phases])


def with_iperf3(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str | None) -> None:
    """Hosts whose iperf3 is this shell script; without one they have none."""
    if script is not None:
        path = folder / "iperf3"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin" if script is not None else str(folder))


def test_sizes_and_streams_are_matrices_of_their_own_all_measured_in_one_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_iperf3(tmp_path, monkeypatch, None)
    methods = goodput_methods(
        OPTIONS, GoodputOptions(seconds=0.3), parse_sizes("100MB,200MB"), parse_streams("1,3")
    )
    found = scan(methods, [Link(0, 1), Link(1, 0)], "ab").scan
    assert list(found.goodput_bytes_per_s) == [
        "goodput",
        "goodput:100MB:3",
        "goodput:200MB:1",
        "goodput:200MB:3",
    ]
    for matrix in found.goodput_bytes_per_s.values():
        assert matrix[0, 1] > 0 and matrix[1, 0] > 0
    assert {m.method for m in found.measurements[1:]} == {"tcp"}
    assert (
        "a, b have no iperf3: goodput is measured by the agents' own TCP flows on all hosts" in found.warnings
    )
    readings = [visit.goodput for visit in found.visits if visit.goodput is not None]
    assert sorted(r.streams for r in readings) == [1, 1, 1, 1, 3, 3, 3, 3]
    assert all(r.congestion_control and r.retransmits is not None for r in readings)


@needs_iperf3
def test_iperf3_measures_where_every_host_has_it_and_mixed_versions_are_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first host to be asked tells the truth, the others say something else.
    script = f"""
if [ "$1" = --version ] && ! mkdir {tmp_path}/asked 2>/dev/null; then echo "iperf 3.99 (x)"; exit; fi
exec {REAL} "$@"
"""
    with_iperf3(tmp_path, monkeypatch, script)
    methods = goodput_methods(OPTIONS, GoodputOptions(), parse_sizes("100MB"), [2])
    found = scan(methods, [Link(0, 1), Link(2, 0)]).scan
    assert found.measurements[1].method == "iperf3"
    matrix = found.goodput_bytes_per_s["goodput"]
    assert matrix[0, 1] > 0 and matrix[2, 0] > 0
    (reading,) = [v.goodput for v in found.visits if v.goodput is not None and v.src == "c"]
    assert reading.streams == 2 and reading.bytes > 50e6 and reading.version
    assert reading.sender_cpu_ratio is not None
    (differ,) = (text for text in found.warnings if "versions of iperf3 differ (" in text)
    assert "3.99 on " in differ


@pytest.mark.slow
@needs_iperf3
@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ("sleep 3600 & wait", "iperf3: it did not end in time, and was killed"),
        ("kill -SEGV $$", "iperf3 printed nothing (it ended by signal 11)"),
        ("yes", "iperf3: it printed more than 163840 bytes, and was killed"),
        (
            'echo \'{"error": "error - the server is busy running a test"}\'',
            "the server is busy running a test",
        ),
    ],
)
def test_a_client_that_misbehaves_costs_its_link_alone(
    client: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first client on the address of host a misbehaves; its second one, in a later round, does not.
    script = f"""
case "$*" in *"-c "*"-B 127.0.0.1") if mkdir {tmp_path}/did 2>/dev/null; then {client}; exit; fi;; esac
exec {REAL} "$@"
"""
    with_iperf3(tmp_path, monkeypatch, script)
    if "sleep" in client:
        # Until it has begun to misbehave: who comes later has time.
        begun = tmp_path / "did"
        monkeypatch.setattr(goodput_iperf3, "longest_s", lambda _seconds, _count: 60.0 * begun.exists())
        monkeypatch.setattr(goodput_iperf3, "SPARE_S", 2.0)
    outcome = scan(
        goodput_methods(OPTIONS, GoodputOptions(way="iperf3"), parse_sizes("100MB"), [1]),
        [Link(0, 1), Link(1, 2)],
    )
    first, second = (v for v in outcome.visits if v.measurement == "goodput" and v.src == 0)
    (other,) = (v for v in outcome.visits if v.measurement == "goodput" and v.src == 1)
    assert other.reason is None and other.goodput is not None
    assert first.reason is not None and reason in first.reason and first.goodput is None
    assert second.goodput is not None and second.round > other.round
    assert not leftovers(tmp_path)


@needs_iperf3
def test_options_that_iperf3_does_not_take_are_warned_once_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""
case "$1" in
  --version) echo "iperf 3.12 (x)";;
  -c) echo >> {tmp_path}/clients; echo "iperf3: parameter error - no such thing"; echo "Usage: iperf3 [-s|-c]";;
  *) exec {REAL} "$@";;
esac
"""
    with_iperf3(tmp_path, monkeypatch, script)
    outcome = scan(
        goodput_methods(OPTIONS, GoodputOptions(way="iperf3"), parse_sizes("1MB"), [1]),
        [Link(0, 1), Link(0, 2)],
    )
    reasons = {v.reason for v in outcome.visits if v.measurement == "goodput"}
    assert reasons == {"a: iperf3 does not take the options of this test: parameter error - no such thing"}
    warned = [text for text in outcome.scan.warnings if "does not take" in text]
    assert len(warned) == 1 and warned[0].startswith("no goodput from a: ")
    assert (tmp_path / "clients").read_text() == "\n"


@pytest.mark.slow
@needs_iperf3
def test_a_wrapper_that_adds_bidir_and_prints_more_is_read_and_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""
case "$1" in
  -c) echo "wrapped by x"; exec {REAL} "$@" --bidir;;
  *) exec {REAL} "$@";;
esac
"""
    with_iperf3(tmp_path, monkeypatch, script)
    outcome = scan(
        goodput_methods(OPTIONS, GoodputOptions(way="iperf3"), parse_sizes("100MB"), [1]), [Link(0, 1)]
    )
    visits = [v for v in outcome.visits if v.measurement == "goodput"]
    assert [v.reason for v in visits] == [None]
    assert visits[0].goodput is not None and visits[0].goodput.flags[:1] == ["both_ways"]
    assert any("is iperf3 a wrapper that adds --bidir?" in text for text in outcome.scan.warnings)
    assert "iperf3 on a printed more than its report: wrapped by x" in outcome.scan.warnings


def leftovers(folder: Path) -> list[int]:
    """Processes whose iperf3 is the script in this folder, or that it became."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if (
                str(folder).encode() in environment
                and b"-ISB" not in words
                and int(entry.name) != os.getpid()
            ):
                found.append(int(entry.name))
    return found


@needs_iperf3
def test_a_server_does_not_outlive_its_agent(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    agent.send({"type": "iperf_serve", "id": 1, "address": "127.0.0.1", "ports": [0, 0]})
    served = agent.next()
    assert served["type"] == "serving"
    children = Path(f"/proc/{agent.child.pid}/task/{agent.child.pid}/children").read_text().split()
    assert len(children) == 1 and is_running(int(children[0]))
    os.kill(agent.child.pid, signal.SIGKILL)
    assert wait_until(lambda: not is_running(int(children[0])), 60)


def test_without_iperf3_hosts_that_were_to_use_it_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_iperf3(tmp_path, monkeypatch, None)
    found = scan(goodput_methods(OPTIONS, GoodputOptions(way="iperf3"), [None], [1]), [Link(0, 1)], "ab").scan
    assert [text for text in found.warnings if "goodput" in text] == [
        "no goodput with a, b: there is no program iperf3 (install it, or give --goodput tcp)"
    ]
    assert not any(visit.goodput for visit in found.visits)


@given(st.text(max_size=12) | st.from_regex(r"[0-9.,]{1,6}(B|kB|MB|GiB)?", fullmatch=True))
def test_sizes_and_streams_are_read_or_refused(text: str) -> None:
    for parse in (parse_sizes, parse_streams):
        try:
            assert parse(text)
        except InputError as error:
            assert repr(text.split(",")[0].strip())[:3] in str(error) or "," in text


def test_sizes_have_decimal_and_binary_units() -> None:
    assert [parse_size(text).bytes for text in ("1MB", "64KiB", "1.5GB")] == [10**6, 65536, 1_500_000_000]
    assert parse_sizes(None) == [None] and parse_streams("1, 4") == [1, 4]
    with pytest.raises(InputError, match="each to be given once"):
        goodput_methods(OPTIONS, GoodputOptions(), parse_sizes("1MB,1MB"), [1])
    with pytest.raises(InputError, match="not one of auto, iperf3, tcp; nan seconds a test"):
        GoodputOptions(way="udp", seconds=float("nan"))  # type: ignore[arg-type]


def test_a_flow_of_which_nothing_came_in_time_is_no_goodput_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(flows: list[Flow], *_args: object, **_options: object) -> list[FlowResult]:
        return [FlowResult(flow=flow, duration_s=0.05, dst_port=9000) for flow in flows]

    monkeypatch.setattr("netprobe.probe.methods.goodput_tcp.run_flows", nothing)
    methods = goodput_methods(OPTIONS, GoodputOptions(way="tcp", seconds=0.1), [None], [1])
    found = scan(methods, [Link(0, 1)], "ab").scan
    assert np.isnan(found.goodput_bytes_per_s["goodput"]).all() and found.status == "partial"
    assert "give a longer --goodput-seconds" in str(found.hosts[0].reason)
