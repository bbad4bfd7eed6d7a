"""Scans, capacities and runs from Python: what is refused before a packet leaves, and what stays on disk."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import netprobe
from netprobe.core.errors import SpecError
from netprobe.face.running import beside_loops
from netprobe.probe.fleet.stopping import run_stoppable
from tests.documents import rack_scan

NOBODY = "false {target}"
"""A way in that leads nowhere."""


@pytest.mark.parametrize(
    "options",
    [
        {"hosts": 3}, {"hosts": []}, {"hosts": [3]}, {"hosts": "no-such-file"}, {"hosts": {"a": 1}}, {},
        {"via": 3}, {"via": ""}, {"via": "shh"}, {"via": netprobe.Reach(ssh_options="Port=1")},
        {"via": netprobe.Reach(via="local", ssh_config="x")}, {"via": netprobe.Reach(start_timeout_s=-1)},
        {"measure": "rrt"}, {"measure": 3}, {"measure": ["rtt", 3]}, {"measure": "capacity,rtt"},
        {"options": {}}, {"progress": 3}, {"out": 3}, {"out": ""}, {"out": "/proc/none"},
        {"via": netprobe.Lab()}, {"hosts": netprobe.Lab()},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_end_as_input_errors_and_leave_nothing(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = {"hosts": ["a", "b"], "via": NOBODY, "out": "first"} if options else {"out": "first"}
    if isinstance(options.get("hosts"), netprobe.Lab):
        given.pop("via")
    with pytest.raises(netprobe.InputError) as caught:
        netprobe.scan(**(given | options))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_scan_in_which_nobody_came_up_blocks_neither_the_next_one_nor_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    heard: list[netprobe.Progress] = []
    for _ in range(2):
        with pytest.raises(netprobe.NothingMeasuredError):
            netprobe.scan(["a", "b"], via=NOBODY, out=tmp_path / "first", progress=heard.append)
    assert {one.kind for one in heard} >= {"host_failed"}
    with pytest.raises(netprobe.NothingMeasuredError):
        netprobe.scan(["a", "b"], via=NOBODY)
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_a_folder_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(netprobe.OutputExistsError):
        netprobe.scan(["a", "b"], via=NOBODY, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_one_machine_is_scanned_in_a_notebook_too(tmp_path: Path) -> None:
    """In a notebook a loop runs already, in which no other one can."""

    async def cell() -> netprobe.Scan:
        return netprobe.scan("localhost,", via="local", out=tmp_path / "first")

    scan = asyncio.run(cell())
    assert [host.status for host in scan.hosts] == ["ok"]
    assert netprobe.load(tmp_path / "first").scan.parent() == scan.parent()


def test_an_interrupt_beside_a_loop_stops_the_work_and_what_it_made_is_returned() -> None:
    started = threading.Event()

    def work() -> str:
        async def main(stop: asyncio.Event) -> str:
            started.set()
            await stop.wait()
            return "stopped"

        return run_stoppable(main)

    class Interrupted(threading.Thread):
        """A thread for which the user presses Ctrl-C once the work runs."""

        pressed = False

        def join(self, timeout: float | None = None) -> None:
            if not self.pressed:
                started.wait()
                self.pressed = True
                time.sleep(0)
                raise KeyboardInterrupt
            super().join(timeout)

    async def cell() -> str:
        return beside_loops(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netprobe.face.running.threading.Thread", Interrupted)
        assert asyncio.run(cell()) == "stopped"


def test_an_error_beside_a_loop_is_the_callers() -> None:
    def work() -> None:
        raise netprobe.InputError("no")

    async def cell() -> None:
        beside_loops(work)

    with pytest.raises(netprobe.InputError):
        asyncio.run(cell())


@pytest.fixture(scope="module")
def plan() -> netprobe.OrderPlan:
    scan, _ = rack_scan([2, 2])
    return netprobe.plan_order(netprobe.map_scan(scan))


@pytest.mark.parametrize(
    "options",
    [
        {"plan": 3}, {"plan": "nowhere"}, {"via": 3}, {"time": "long"}, {"time": 0}, {"size": "big"}, {"map": 3},
        {"against": "nobody"}, {"against": ["a", "b"]}, {"against": 3}, {"out": 3}, {"out": "no/such/x.json"},
        {"progress": "loud"},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_of_a_run_end_as_input_errors(
    options: dict[str, Any], plan: netprobe.OrderPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"plan": plan, "via": NOBODY}
    with pytest.raises(netprobe.InputError):
        netprobe.verify_plan(**(given | options))
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_predicted_by_the_capacities_that_are_given(
    plan: netprobe.OrderPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        "netprobe.face.measuring.verify_order", lambda *_, capacity, **__: given.append(capacity)
    )
    carried = netprobe.Capacity.model_construct(hosts=[])
    netprobe.verify_plan(plan, via="local", map=carried)
    assert given == [carried]


def test_a_run_and_capacities_of_nobody_say_so_and_write_nothing_that_blocks(tmp_path: Path) -> None:
    scan, _ = rack_scan([2, 2])
    map_ = netprobe.map_scan(scan)
    plan = netprobe.plan_order(map_, scan=scan)
    for _ in range(2):
        with pytest.raises(netprobe.NothingMeasuredError):
            netprobe.verify_plan(plan, via=NOBODY, out=tmp_path)
        with pytest.raises(netprobe.NothingMeasuredError):
            netprobe.measure_capacity(scan, map_, via=NOBODY, out=tmp_path)
    with pytest.raises(netprobe.InputError):
        netprobe.measure_capacity(scan, via=NOBODY)
    with pytest.raises(netprobe.DocumentError):
        netprobe.measure_capacity(scan, netprobe.map_scan(rack_scan([2, 2], seed=5)[0]), via=NOBODY)


def test_a_lab_that_is_not_up_says_so() -> None:
    lab = netprobe.Lab("racks-6-6-4")
    assert repr(lab) == "<Lab racks-6-6-4: not up>"
    for attribute in ("hosts", "via", "racks", "hosts_file"):
        with pytest.raises(netprobe.InputError):
            getattr(lab, attribute)
    for wrong in ("no-such-lab", "no/such.yaml", 3, None):
        with pytest.raises(netprobe.InputError):
            netprobe.Lab(wrong)  # type: ignore[arg-type]
    with pytest.raises(SpecError):
        netprobe.Lab("no-such-lab")


@pytest.mark.lab
def test_the_whole_chain_on_a_lab(tmp_path: Path) -> None:
    heard: list[netprobe.Progress] = []
    with netprobe.Lab("racks-6-6-4", seed=1) as lab:
        scan = netprobe.scan(lab, progress=heard.append)
        again = netprobe.scan(lab.hosts_file, via=lab, out=tmp_path / "first")
        racks = lab.racks
    map_ = netprobe.map_scan(scan)
    assert scan.status == again.status == "ok"
    assert scan.samples is None
    assert again.samples is not None
    assert sorted(sorted(group.hosts) for group in map_.groups) == sorted(sorted(rack) for rack in racks)
    assert {"agents", "links"} <= {one.kind for one in heard}
    assert sorted(netprobe.plan_order(map_, scan=scan).order) == sorted(
        name for rack in racks for name in rack
    )
