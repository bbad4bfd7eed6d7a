"""Verifying with real agents on this machine: what is written, what is refused, and hosts that go."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError, InterruptedScanError, NothingMeasuredError
from netprobe.pipeline import files, map_scan, plan_order
from netprobe.pipeline.planning.plan_order import PlanRequest
from netprobe.pipeline.verifying.verify_case import Baseline, load_baseline
from netprobe.pipeline.verifying.verify_order import NothingVerifiedError, VerifyRequest, verify_order
from netprobe.probe.launchers.exec_launcher import LocalLauncher
from netprobe.probe.records.events import Event, HostUp, Step
from netprobe.report.verify import verify_text
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.run import VerifyOptions
from tests.documents import capacity_of, rack_scan
from tests.verify.stand import Stand

QUICK_RUN = VerifyOptions(size_bytes=50_000, comparison=ComparisonOptions(time_s=1.0, precision=0.5))
QUICK = VerifyRequest(options=QUICK_RUN)


@pytest.fixture(scope="module")
def planned() -> tuple[Map, OrderPlan]:
    scan, _ = rack_scan([3, 3], seed=4)
    # Agents of this machine have its addresses, not those of a made-up fleet.
    hosts = [host.model_copy(update={"address": None}) for host in scan.hosts]
    map_ = map_scan(scan.model_copy(update={"hosts": hosts}), seed=1)
    return map_, plan_order(map_)


@pytest.mark.slow
def test_a_plan_is_run_and_what_was_run_is_written(
    planned: tuple[Map, OrderPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    map_, plan = planned
    files.save(map_, tmp_path / "map.json")
    files.save(plan, tmp_path / "plan.json")
    command = ["verify", str(tmp_path / "plan.json"), "--map", str(tmp_path / "map.json"), "--via", "local"]
    command += ["--size", "50kB", "--time", "1s", "--orders", "3", "--channels", "2"]
    code = run(command)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert (
        "speed-up against the original order: " in said.out
        and "predicted by the plan's cost of a ring (the sum of its hops, latency alone): " in said.out
        and "tau-b" in said.out
    )
    assert "chunked-ring (how libraries run a ring)" in said.out
    document = load_document(Verify, tmp_path / "verify.json")
    assert document.status == "ok" and document.parents == [plan.parent(), map_.parent()]
    assert document.orders[0].order == plan.order and document.orders[1].name == "given"
    assert document.orders[0].predicted_s == pytest.approx(plan.cost_s)
    assert document.orders[1].predicted_s == pytest.approx(plan.cost_given_s)
    assert document.comparison.predicted_ratio == pytest.approx(plan.cost_given_s / plan.cost_s)
    assert document.sent_bytes == 2 * 5 * 50_000 and document.ran == "chunked-ring"
    counted = [one for one in document.repetitions if one.part == "comparison"]
    assert [one.part for one in document.repetitions[:3]] == ["warm_up", "warm_up", "comparison"]
    assert [one.order for one in counted[:4]] == [1, 0, 0, 1]
    # Every single one was proved by the sets of contributors on the wire.
    assert document.proved == len(document.repetitions) and document.comparison.pairs == len(counted) // 2
    assert document.correlation is not None and document.correlation.orders == 3
    assert run(command) == 2 and "exists already" in capsys.readouterr().err
    assert run([*command, "--orders", "0", "--size", "1kB", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "ok"


@pytest.mark.slow
def test_without_a_size_a_smaller_buffer_is_chosen_and_said(
    planned: tuple[Map, OrderPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many runs that leaves is a question of the clock: see test_sizing.py and test_compare.py."""
    _, plan = planned
    large = plan.model_copy(update={"size_bytes": 1_000_000_000})
    files.save(large, tmp_path / "plan.json")
    command = ["verify", str(tmp_path / "plan.json"), "--via", "local", "--time", "1s"]
    assert run(command) == 0
    document = load_document(Verify, tmp_path / "verify.json")
    assert 64_000 < document.size_bytes < 10**9 and document.parameters["full_size_bytes"] == 10**9
    assert document.comparison.pairs >= 2 and document.proved == len(document.repetitions)
    assert document.sent_bytes == 2 * 5 * document.size_bytes
    assert "of 1 GB fewer than six runs of each order fit" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["halving-doubling", "nccl-tree"])
def test_other_algorithms_run_against_random_orders(planned: tuple[Map, OrderPlan], algorithm: str) -> None:
    map_, plan = planned
    document = verify_order(
        plan,
        VerifyRequest(against=Baseline(name="random"), algorithm=algorithm, options=QUICK_RUN),
        launcher=LocalLauncher(),
        map_=map_,
    )
    assert document.algorithm == document.ran == algorithm and document.comparison.pairs >= 2
    assert len(document.orders) == 9 and document.proved == len(document.repetitions)
    assert all(one.predicted_s for one in document.orders)


@pytest.mark.slow
def test_measured_capacities_predict_times_with_shared_uplinks_in_them(
    planned: tuple[Map, OrderPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of ten rounds moves a sixth of 48 kB a host; where k hosts send out of a rack it takes k times as long."""
    map_, plan = planned
    files.save(capacity_of(map_), tmp_path / "capacity.json")
    files.save(plan, tmp_path / "plan.json")
    command = [
        "verify",
        str(tmp_path / "plan.json"),
        "--capacity",
        str(tmp_path / "capacity.json"),
        "--via",
        "local",
    ]
    assert run([*command, "--size", "48kB", "--time", "1s", "--orders", "3"]) == 0
    assert "predicted by the measured capacities of hosts and uplinks: " in capsys.readouterr().out
    document = load_document(Verify, tmp_path / "verify.json")
    rack = {name: group.id for group in map_.groups for name in group.hosts}
    for one in document.orders:
        hops = list(zip(one.order, [*one.order[1:], one.order[0]], strict=True))
        most = max(sum(rack[a] == id_ != rack[b] for a, b in hops) for id_ in rack.values())
        assert one.predicted_s == pytest.approx(10 * 8000 / 8e6 * most)
    proposed, given = document.orders[:2]
    assert proposed.predicted_s and given.predicted_s
    assert document.comparison.predicted_ratio == pytest.approx(given.predicted_s / proposed.predicted_s)
    assert document.parents[1].schema_ == "netprobe.capacity/1.0"
    files.save(capacity_of(map_, without=f"up:{map_.groups[1].id}"), tmp_path / "capacity.json")
    assert run([*command, "--force"]) == 2
    assert f"the capacity of up:{map_.groups[1].id} was not measured" in capsys.readouterr().err


class Slow(Stand):
    """A library that takes its time around what it says that a run took."""

    def time_all_reduce(self, order: Sequence[int], size_bytes: int, timeout_s: float) -> float:
        time.sleep(0.3)
        return 0.001


@pytest.mark.slow
def test_orders_that_the_time_does_not_hold_are_left_out_and_counted(planned: tuple[Map, OrderPlan]) -> None:
    map_, plan = planned
    document = verify_order(
        plan,
        VerifyRequest(library=Slow(), orders=40, options=QUICK_RUN),
        launcher=LocalLauncher(),
        map_=map_,
    )
    parts = [one.part for one in document.repetitions]
    assert parts.count("comparison") == 4  # a second of these runs holds no more than what is always run
    ran = len({one.order for one in document.repetitions if one.part == "orders"})
    assert 2 <= ran < 40 and f"{ran} of 40 orders were run: the time was up (--time)" in document.warnings
    assert document.status == "partial" and document.reason is not None
    needed = float(document.reason.partition("give --time ")[2].partition("s or more")[0])
    assert needed >= QUICK_RUN.comparison.time_s * 40 / ran
    assert document.correlation is not None and document.correlation.orders == ran


class Watch:
    """An ``on_event`` that does something to agents of this process once the comparison is going."""

    def __init__(self, act: Callable[[list[int]], None], *, after_runs: int = 3) -> None:
        self.act, self.after, self.acted = act, after_runs, False

    def __call__(self, event: Event) -> None:
        done = (
            event.detail.split()[0] if isinstance(event, Step) and event.text == "comparing orders" else "0"
        )
        if not self.acted and int(done) >= self.after:
            self.acted = True
            self.act(agents_here())


def agents_here() -> list[int]:
    """Process ids of the agents that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                ppid = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(ppid) == os.getpid() and b"-ISB" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return sorted(found)


LONG = VerifyRequest(
    options=VerifyOptions(size_bytes=50_000, comparison=ComparisonOptions(time_s=60.0, precision=0.001))
)


@pytest.mark.slow
def test_an_agent_that_is_killed_ends_it_with_a_line_and_the_rest_is_kept(
    planned: tuple[Map, OrderPlan], tmp_path: Path
) -> None:
    watch = Watch(lambda agents: os.kill(agents[2], signal.SIGKILL))
    document = verify_order(
        planned[1], LONG, launcher=LocalLauncher(), path=tmp_path / "v.json", on_event=watch
    )
    assert watch.acted and document.status == "partial" and document.duration_s < 60
    (lost,) = [host for host in document.hosts if host.status != "ok"]
    assert (
        document.reason is not None and lost.name in document.reason and "the agent ended" in document.reason
    )
    assert document.comparison.pairs >= 1 and document.comparison.ratio
    written = load_document(Verify, tmp_path / "v.json")
    assert written.reason == document.reason and len(written.repetitions) == len(document.repetitions)
    assert agents_here() == []


def test_ctrl_c_keeps_what_there_is(planned: tuple[Map, OrderPlan], tmp_path: Path) -> None:
    watch = Watch(lambda _agents: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(InterruptedScanError, match="runs are kept in"):
        verify_order(planned[1], LONG, launcher=LocalLauncher(), path=tmp_path / "v.json", on_event=watch)
    document = load_document(Verify, tmp_path / "v.json")
    assert (
        document.status == "partial" and document.reason == "interrupted" and document.comparison.pairs >= 1
    )
    assert agents_here() == []


class WithoutOne(LocalLauncher):
    """A launcher under which one host has no Python."""

    def argv(self, host: Any, command: Any) -> list[str]:
        return ["/bin/false"] if host.name == "n3" else super().argv(host, command)


def test_a_host_that_is_not_there_is_left_out_of_both_orders_or_refused(
    planned: tuple[Map, OrderPlan],
) -> None:
    map_, plan = planned
    document = verify_order(plan, QUICK, launcher=WithoutOne(), map_=map_)
    assert document.status == "partial" and document.reason is not None and document.reason.startswith("n3: ")
    for one in document.orders:
        assert sorted(one.order) == sorted(set(plan.order) - {"n3"})
    assert document.comparison.pairs >= 1 and document.comparison.predicted_ratio is not None
    with pytest.raises(NothingMeasuredError, match="1 of 6 hosts are not up, and all are required: n3"):
        request = VerifyRequest(options=VerifyOptions(size_bytes=1000, require_all=True))
        verify_order(plan, request, launcher=WithoutOne())


def test_what_needs_no_run_is_answered_without_one(planned: tuple[Map, OrderPlan], tmp_path: Path) -> None:
    map_, _ = planned
    plan = plan_order(map_)
    kept = plan_order(
        map_, PlanRequest(hosts=[next(h for h in map_.hosts if h.name == name) for name in plan.order])
    )
    started: list[Event] = []
    document = verify_order(kept, QUICK, launcher=LocalLauncher(), on_event=started.append)
    assert document.comparison.verdict == "same" and document.status == "ok" and document.repetitions == []
    assert not any(isinstance(event, HostUp) for event in started)
    two, _ = rack_scan([2], seed=1)
    with pytest.raises(NothingVerifiedError, match="2 hosts .*: 3 hosts are needed"):
        verify_order(plan_order(map_scan(two)), QUICK, launcher=LocalLauncher())


def test_what_does_not_belong_together_is_refused(
    planned: tuple[Map, OrderPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, plan = planned
    other = map_scan(rack_scan([3, 4], seed=9)[0], seed=1)
    files.save(other, tmp_path / "other.json")
    files.save(plan, tmp_path / "plan.json")
    (tmp_path / "hosts").write_text("a\nb\nc\n")
    base = ["verify", str(tmp_path / "plan.json"), "--via", "local", "--out", str(tmp_path / "v.json")]
    for options, text in (
        (["--map", str(tmp_path / "other.json")], "its hosts differ from those of the map"),
        (["--against", str(tmp_path / "hosts")], "its hosts differ from those of the plan"),
        (["--against", "nowhere"], "neither given nor random nor a file"),
        (["--orders", "3"], "give --map"),
        (["--algorithm", "magic"], "no algorithm 'magic': known are ring"),
        (["--size", "32"], "has no unit"),
        (["--precision", "5"], "a share such as 5% is needed"),
        (["--precision", "900%"], "0.1 % to 100 % are allowed"),
        (["--time", "0s"], "1s to 24h is needed"),
        (["--channels", "0"], "0 channels: 1 to 64"),
        (["--out", str(tmp_path / "plan.json"), "--force"], "is the input itself"),
    ):
        assert run([*base, *options]) == 2, options
        said = capsys.readouterr()
        assert text in said.err and said.err.count("\n") == 1, said.err
    assert not (tmp_path / "v.json").exists()
    reordered = load_baseline(str(tmp_path / "plan.json"))
    assert [host.name for host in reordered.hosts or ()] == plan.order
    with pytest.raises(InputError, match="is a map document"):
        load_baseline(str(tmp_path / "other.json"))


@pytest.mark.slow
def test_a_run_of_nothing_says_what_may_be_missing(
    planned: tuple[Map, OrderPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, plan = planned
    files.save(plan, tmp_path / "plan.json")
    (tmp_path / "config").write_text("")
    command = ["verify", str(tmp_path / "plan.json"), "--ssh-config", str(tmp_path / "config")]
    hint = "(no --via was given: is it the scan's way in?)"
    for size, more in ((1000, []), (2000, ["--force"]), (2000, ["--force", "--require-all"])):
        trying = [
            *command,
            "--ssh-option",
            "ProxyCommand=false",
            "--start-timeout",
            "0.7",  # it fails however long it is tried
            "--size",
            f"{size}B",
            *more,
        ]
        assert run(trying) == 4
        assert hint in capsys.readouterr().err
        failed = load_document(Verify, tmp_path / "verify.json")  # of this try, not of the one before
        assert failed.status == "failed" and failed.size_bytes == size
    assert run([*command, "--orders", "-1"]) == 2
    assert "--orders -1" in capsys.readouterr().err


@pytest.mark.slow
def test_the_size_that_was_priced_is_run_and_said(
    planned: tuple[Map, OrderPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, plan = planned
    files.save(plan.model_copy(update={"size_bytes": 1, "objective": "bottleneck"}), tmp_path / "plan.json")
    command = ["verify", str(tmp_path / "plan.json"), "--via", "local", "--time", "1s"]
    assert run(command) == 0
    said = capsys.readouterr().out
    assert (
        " of 1 B on 6 hosts, 10 B sent a run" in said and "(2 to warm up)" in said and "warning" not in said
    )
    assert "cost of a ring (the largest of its hops, 1 B by latency and goodput): " in said
    assert run([*command, "--size", "2kB", "--force"]) == 0
    said = capsys.readouterr().out
    assert "warning: buffers of 2000 bytes were run, and predictions are of the plan's 1 bytes" in said
    found = load_document(Verify, tmp_path / "verify.json")
    other = found.model_copy(update={"algorithm": "tree", "parameters": {"predicted_by": "nonsense"}})
    assert "by the plan's cost of a tree (latency alone): " in verify_text(other)


def test_agents_that_verify_stay_small(planned: tuple[Map, OrderPlan]) -> None:
    sizes: list[float] = []

    def look(agents: list[int]) -> None:
        for pid in agents:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)

    began = time.monotonic()
    verify_order(planned[1], QUICK, launcher=LocalLauncher(), on_event=Watch(look))
    assert len(sizes) == 6 and max(sizes) < 15, (sizes, time.monotonic() - began)
