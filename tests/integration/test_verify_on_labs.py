"""`netprobe verify` on a lab with slow uplinks: the rack order against one that strides across the racks."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.verify import Verify
from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, LabSpec, temporary
from netprobe.pipeline import files
from netprobe.pipeline.verifying.verify_case import Baseline
from netprobe.pipeline.verifying.verify_order import VerifyRequest, verify_order
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import Event, Step
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.run import VerifyOptions
from tests.documents import rack_rtt
from tests.plan.fleets import order_plan

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

SPEC = {
    "name": "verify",
    "racks": [4, 4],
    "host_rate": "80Mbit/s",
    "uplink_rate": "40Mbit/s",
    "delay_between": "150us",
}


def by_rack(lab: Lab) -> list[list[str]]:
    racks: dict[str, list[str]] = {}
    for host in lab.truth().hosts:
        racks.setdefault(host.rack, []).append(host.name)
    return list(racks.values())


def test_a_ring_in_rack_order_is_faster_and_a_dead_agent_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with temporary(LabSpec.from_spec(SPEC), seed=3) as lab:
        reach = ["--via", lab.via_template, "--python", sys.executable]
        racks = by_rack(lab)
        hosts = {host.name: host for host in read_hosts_file(lab.hosts_path)}
        # Given: one of each rack in turn. The plan: rack after rack.
        given = [hosts[name] for pair in zip(*racks, strict=True) for name in pair]
        where = {name: i for i, name in enumerate(name for rack in racks for name in rack)}
        rtt = rack_rtt([len(rack) for rack in racks], seed=1)
        at = [where[host.name] for host in given]
        plan = order_plan(given, rtt[at][:, at] / 2, seed=1)
        path = tmp_path / "plan.json"
        files.save(plan, path)
        command = ["verify", str(path), *reach, "--size", "200kB", "--time", "5s", "--precision", "20%"]
        code = run([*command, "--json"])
        said = capsys.readouterr()
        assert code == 0, said.err
        document = load_document(Verify, tmp_path / "verify.json")
        # A strided ring crosses each uplink four times as often: how much slower it is, is bench's to say.
        assert document.comparison.ratio is not None and document.comparison.ratio > 1.2
        assert document.comparison.predicted_ratio == pytest.approx(plan.cost_given_s / plan.cost_s)
        assert document.proved == len(document.repetitions) > 0
        assert json.loads(said.out)["comparison"]["ratio"] == pytest.approx(document.comparison.ratio)

        victim = next(host for host in given if host.name == plan.order[3])

        def on_event(event: Event) -> None:
            if (
                isinstance(event, Step)
                and event.text == "comparing orders"
                and not event.detail.startswith("2 ")
            ):
                for pid in lab_agents(victim.target):
                    os.kill(pid, signal.SIGKILL)

        broken = verify_order(
            plan,
            VerifyRequest(
                against=Baseline(name="random"),
                algorithm="halving-doubling",
                options=VerifyOptions(
                    size_bytes=100_000, comparison=ComparisonOptions(time_s=30.0, precision=0.001)
                ),
            ),
            launcher=parse_via(lab.via_template),
            on_event=on_event,
        )
    assert broken.status == "partial" and broken.reason is not None and victim.name in broken.reason
    assert broken.comparison.pairs >= 1 and "\n" not in broken.reason
    assert [host.name for host in broken.hosts if host.status != "ok"] == [victim.name]


def test_a_schedule_runs_in_turn_with_algorithms_and_other_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2LHA by the racks on 2:1 uplinks, hosts given one of each rack in turn: every rank proves every chunk."""
    with temporary(LabSpec.from_spec(SPEC | {"racks": [4, 3]}), seed=3) as lab:
        reach = ["--via", lab.via_template, "--python", sys.executable]
        racks = by_rack(lab)
        hosts = {host.name: host for host in read_hosts_file(lab.hosts_path)}
        order = [name for pair in itertools.zip_longest(*racks) for name in pair if name is not None]
        groups = [[order.index(name) for name in rack] for rack in racks]
        placement = Placement(hosts=[hosts[name] for name in order], order=order)
        files.save(build_schedule_plan(two_level(groups, 24), placement), tmp_path / "plan.json")
        files.save(build_schedule_plan(hierarchical(groups), placement), tmp_path / "other.json")
        command = ["verify", str(tmp_path / "plan.json"), *reach, "--time", "3s", "--precision", "20%"]
        assert run([*command, "--size", "200kB"]) == 0, capsys.readouterr().err
        first = load_document(Verify, tmp_path / "verify.json")
        other = ["--against", str(tmp_path / "other.json"), "--out", str(tmp_path / "second.json")]
        assert run([*command, "--size", "100001B", *other]) == 0, capsys.readouterr().err
        second = load_document(Verify, tmp_path / "second.json")
    assert [one.algorithm for one in first.orders] == ["2lha", "chunked-ring", "halving-doubling"]
    assert {run_.order for run_ in first.repetitions} == {0, 1, 2}
    assert first.proved == len(first.repetitions) and first.sent_bytes == 2 * 6 * 200_000
    assert [one.algorithm for one in second.orders] == ["2lha", "hierarchical"]
    assert second.proved == len(second.repetitions) and second.comparison.against == "other.json"


def lab_agents(target: str) -> list[int]:
    """Agents of this process in one host's namespace."""
    wanted = Path(f"/run/netns/{target}").stat().st_ino
    found = []
    for entry in Path("/proc").iterdir():
        try:
            here = entry.name.isdigit() and (entry / "ns" / "net").stat().st_ino == wanted
            if here and b"-ISB" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_scan_of_a_lab_with_rates_ends_with_its_order_run_on_the_wire(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # That they are run is looked at here, not how well they are distinguished.
    monkeypatch.setattr("netprobe.pipeline.chain.LAB_RUN_S", 0.3)
    monkeypatch.setattr("netprobe.pipeline.chain.LAB_TIME_S", 3.0)
    spec = tmp_path / "rates.yaml"
    spec.write_text(
        "name: rates\nracks: [4, 4]\nhost_rate: 40Mbit/s\nuplink_rate: 40Mbit/s\ndelay_between: 300us\n"
    )
    out = tmp_path / "out"
    scan = ["scan", "--lab", str(spec), "--seed", "5", "--probes", "20", "--out", str(out)]
    assert run([*scan, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    document = load_document(Verify, out / "verify.json")
    assert said["verify"]["proved"] == document.proved == len(document.repetitions) > 0
    assert [parent.schema_ for parent in document.parents] == ["netprobe.plan/1.3", "netprobe.map/1.0"]
    # A ring crosses the uplinks once in the plan's order, and from 1 to 4 times as given: never fewer.
    assert document.comparison.verdict in ("faster", "cannot_tell", "same")


def test_a_lab_without_rates_has_nothing_to_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert run(["scan", "--lab", "pair", "--verify", *out]) == 2
    assert "the lab pair has no rates" in capsys.readouterr().err
    assert run(["scan", "--hosts", "a,b", "--only", "map", "--verify", *out]) == 2
    assert "--only map stops before it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
