"""Schedules against other plans: what may be compared, what the document says, and bad input in a line."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.documents.document import load_document, write_document
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import DocumentError, InputError
from netprobe.core.hosts import Host
from netprobe.pipeline.verifying import verify_schedule as module
from netprobe.pipeline.verifying.verify_order import NothingVerifiedError
from netprobe.pipeline.verifying.verify_schedule import Against, verify_schedule
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.document import Placement
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.records.result import HostOutcome
from netprobe.verify.comparison import ComparisonOptions, Repetition
from netprobe.verify.libraries.process_group import LibraryError
from netprobe.verify.run import VerifyOptions, VerifyOutcome

NAMES = ["a", "b", "c", "d"]


def planned(schedule: Schedule, names: list[str] = NAMES) -> SchedulePlan:
    order = names[: schedule.ranks]
    return build_schedule_plan(schedule, Placement(hosts=[Host(name=n) for n in names], order=order))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Fleets that run everything in a second, the plan in half of that; what was run is listed."""
    listed: list[Any] = []

    def run(
        hosts: Any,
        algorithm: str,
        arrange: Any,
        _launcher: Any,
        _options: Any,
        verify: VerifyOptions,
        **_: Any,
    ) -> VerifyOutcome:
        contenders = arrange(range(len(hosts)), verify.size_bytes)
        listed.append(contenders)
        outcome = VerifyOutcome(
            hosts=[HostOutcome(host=host, status="ok") for host in hosts], contenders=contenders
        )
        for order in (1, 0, 0, 1, 1, 0):
            outcome.record.comparison.append(Repetition(order=order, seconds=0.5 if order == 0 else 1.0))
        for order in range(2, len(contenders.all)):
            outcome.record.survey.append(Repetition(order=order, seconds=1.0))
        return outcome

    monkeypatch.setattr(module, "run_verify", run)
    return listed


def test_a_schedule_is_compared_with_the_ring_and_halving_doubling_in_the_original_order(
    ran: list[Any],
) -> None:
    plan = planned(two_level([[0, 1], [2, 3]], 8))
    document = verify_schedule(plan, launcher=None)  # type: ignore[arg-type]
    assert [(o.name, o.kind, o.algorithm) for o in document.orders] == [
        ("proposed", "schedule", "2lha"),
        ("chunked-ring, given", "order", "chunked-ring"),
        ("halving-doubling, given", "order", "halving-doubling"),
    ]
    assert document.comparison.ratio == pytest.approx(2.0) and document.comparison.verdict == "faster"
    assert document.algorithm == document.ran == "2lha"
    assert [c.schedule.name for c in ran[0].all] == ["2lha", "chunked-ring", "halving-doubling"]


def test_another_plan_or_algorithm_is_what_it_is_compared_with(ran: list[Any], tmp_path: Path) -> None:
    plan = planned(two_level([[0, 1], [2, 3]], 8))
    write_document(planned(build("bcube", 4)), tmp_path / "other.json")
    document = verify_schedule(plan, tmp_path / "other.json", launcher=None)  # type: ignore[arg-type]
    assert [o.algorithm for o in document.orders] == ["2lha", "bcube"]
    assert document.comparison.against == "other.json"
    document = verify_schedule(plan, "flat", launcher=None)  # type: ignore[arg-type]
    assert [o.algorithm for o in document.orders] == ["2lha", "flat"]


class FakeLibrary:
    """Takes a fifth of a second; ``fails`` when it is opened."""

    name = "mpi"
    algorithms = ("ring", "default")
    version = "fake 1.0"

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.asked: list[Any] = []

    @contextmanager
    def open(self, hosts: Any, *, algorithm: str, **_: Any) -> Iterator[FakeLibrary]:
        if self.fails:
            raise LibraryError("mpirun: no hosts")
        self.asked.append(([host.name for host in hosts], algorithm))
        yield self

    def time_all_reduce(self, order: Any, size_bytes: int, _timeout_s: float) -> float:
        self.asked.append((tuple(order), size_bytes))
        time.sleep(0.2)
        return 0.2


def test_a_librarys_own_all_reduce_runs_beside_a_schedule(ran: list[Any], tmp_path: Path) -> None:
    """In the original order, whatever the plan's is, by the algorithm that the library chooses."""
    hosts = [Host(name=name) for name in NAMES]
    plan = build_schedule_plan(build("bcube", 4), Placement(hosts=hosts, order=["c", "a", "d", "b"]))
    verify = VerifyOptions(size_bytes=4000, comparison=ComparisonOptions(time_s=1.0))
    library = FakeLibrary()
    nobody: Any = None
    path = tmp_path / "verify.json"
    document = verify_schedule(plan, Against(library=library), launcher=nobody, verify=verify, path=path)
    last = document.orders[-1]
    assert (last.name, last.kind, last.algorithm) == ("mpi default, given", "library", "mpi default")
    assert last.order == NAMES and library.asked[:2] == [(NAMES, "default"), ((0, 1, 2, 3), 4000)]
    own = [one for one in document.repetitions if one.order == 3]
    assert own and {(one.seconds, one.part) for one in own} == {(0.2, "orders")}
    # What the agents found out stays what it was.
    assert document.comparison.ratio == pytest.approx(2.0) and document.method == "tcp"
    assert document.parameters["library"] == "fake 1.0" and document.status == "ok"
    assert load_document(Verify, tmp_path / "verify.json").orders[-1].name == last.name

    failing = Against(library=FakeLibrary(fails=True))
    failed = verify_schedule(plan, failing, launcher=nobody, verify=verify)
    assert failed.status == "partial" and failed.reason == "--with mpi: mpirun: no hosts"
    assert len(failed.orders) == 3 and failed.comparison.ratio == pytest.approx(2.0)
    scatter = planned(build("reduce-scatter", 4))
    write_document(scatter.model_copy(update={"seed": 1}), tmp_path / "scatter.json")
    other = Against(name=tmp_path / "scatter.json", library=library)
    with pytest.raises(InputError, match="--with runs all-reduces"):
        verify_schedule(scatter, other, launcher=nobody)
    odd = VerifyOptions(size_bytes=4001)
    with pytest.raises(InputError, match="floats of 4 bytes"):
        verify_schedule(plan, Against(library=library), launcher=nobody, verify=odd)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    plan = planned(two_level([[0, 1], [2, 3]], 8))
    write_document(planned(build("reduce-scatter", 4)), tmp_path / "scatter.json")
    write_document(planned(build("ring", 4), ["a", "b", "c", "x"]), tmp_path / "others.json")
    (tmp_path / "broken.json").write_text("{")
    write_document(plan, tmp_path / "same.json")
    for against, error, text in (
        ("nonsense", InputError, "neither a plan's file nor an algorithm: ring, "),
        ("reduce-scatter", InputError, "is a reduce-scatter"),
        (tmp_path / "scatter.json", InputError, "is a reduce_scatter, and the plan is a all_reduce"),
        (tmp_path / "others.json", DocumentError, "x"),
        (tmp_path / "broken.json", DocumentError, "no valid JSON"),
        (tmp_path / "same.json", InputError, "this is the same plan"),
    ):
        with pytest.raises(error, match=text):
            verify_schedule(plan, against, launcher=None)  # type: ignore[arg-type]
    with pytest.raises(NothingVerifiedError, match="3 are needed"):
        verify_schedule(planned(build("ring", 2), ["a", "b"]), launcher=None)  # type: ignore[arg-type]
    for size, channels in itertools.product((0, -1), (1,)):
        with pytest.raises(InputError, match="bytes"):
            VerifyOptions(size_bytes=size, channels=channels)
