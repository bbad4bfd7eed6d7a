"""``import netprobe``: documents loaded, made from each other, saved and shown, with whatever a person has."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netprobe
from netprobe.core.documents.document import write_document
from tests.documents import capacity_of, rack_scan
from tests.repository.project import ROOT, folders_of_setup


@pytest.fixture(scope="module")
def scan() -> netprobe.Scan:
    return rack_scan([3, 2])[0]


@pytest.fixture(scope="module")
def map_(scan: netprobe.Scan) -> netprobe.Map:
    return netprobe.map_scan(scan)


@pytest.fixture(scope="module")
def folder(scan: netprobe.Scan, map_: netprobe.Map, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("first")
    for document in (scan, map_, capacity_of(map_), netprobe.plan_order(map_, scan=scan)):
        netprobe.save(document, made)
    return made


def test_the_import_alone_loads_none_of_what_makes_an_import_slow() -> None:
    """How long it takes is a figure of the bench; whatever netprobe's own modules need is loaded at first use."""
    code = (
        "import sys, netprobe; ours = [m for m in sys.modules if m.startswith('netprobe.')]; "
        "print(ours, sorted({'numpy', 'scipy', 'torch', 'pydantic', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "['netprobe._version'] []\n"


def test_no_public_name_is_hidden_by_a_sub_package() -> None:
    """Each is imported first, which sets it as an attribute of its package."""
    for found in pkgutil.walk_packages(netprobe.__path__, "netprobe."):
        if found.ispkg:
            importlib.import_module(found.name)
    assert not set(netprobe.__all__) & set(folders_of_setup())
    for name in netprobe.__all__:
        assert type(getattr(netprobe, name)).__name__ != "module", name


def test_every_public_name_is_there_listed_and_described() -> None:
    for name in netprobe.__all__:
        assert name in dir(netprobe)
        found = getattr(netprobe, name)
        assert name == "__version__" or found.__doc__
    with pytest.raises(AttributeError):
        _ = netprobe.no_such_name


def test_a_document_a_path_and_a_folder_give_the_same(
    scan: netprobe.Scan, map_: netprobe.Map, folder: Path
) -> None:
    for given in (scan, folder, str(folder), folder / "scan.json", netprobe.load(folder)):
        assert netprobe.map_scan(given).parent() == map_.parent()
    order = netprobe.plan_order(map_, scan=scan).order
    for place in (folder, str(folder / "map.json"), netprobe.load(folder)):
        assert netprobe.plan_order(place).order == order
    fast = netprobe.plan_schedule(folder, algorithm="2lha", capacity=folder, size="1MB")
    assert fast.predictions[0].size_bytes == 1_000_000


@pytest.mark.slow
def test_a_schedule_is_chosen_unasked(folder: Path) -> None:
    plan = netprobe.plan_schedule(folder, capacity=folder, size="1MB")
    assert isinstance(plan, netprobe.SchedulePlan)
    assert plan.contract.collective == "all_reduce"


def test_a_folder_reads_what_is_asked_for(folder: Path, map_: netprobe.Map) -> None:
    found = netprobe.load(folder)
    assert found.kinds == ("scan", "map", "capacity", "plan")
    assert found.map.parent() == map_.parent()
    assert isinstance(found.plan, netprobe.OrderPlan)
    assert netprobe.load(folder / "plan.json").order == found.plan.order
    assert netprobe.load(folder, "map").parent() == map_.parent()
    with pytest.raises(netprobe.DocumentError):
        _ = found.verify


def test_options_are_passed_on(map_: netprobe.Map, scan: netprobe.Scan) -> None:
    names = [host.name for host in scan.hosts][::-1]
    assert len(netprobe.map_scan(scan, k=3).groups) == 3
    assert netprobe.map_scan(scan, groups="sqrt").grouping.k == 2
    assert netprobe.plan_order(map_, scan=scan, hosts=names).order[0] == names[0]
    assert (
        netprobe.plan_order(map_, scan=scan, options=netprobe.OrderOptions(root=names[3])).order[0]
        == names[3]
    )


@pytest.mark.parametrize("wrong", [None, 3, 2.5, object(), [], {}, b"x", "", "no/such/file", np.zeros(3)])
@pytest.mark.parametrize(
    "call", [netprobe.map_scan, netprobe.plan_order, netprobe.plan_schedule, netprobe.load]
)
def test_what_is_no_document_ends_as_an_input_error(call: Any, wrong: object) -> None:
    with pytest.raises(netprobe.InputError) as caught:
        call(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "rnig"}, {"algorithm": 3}, {"size": "big"}, {"size": 0}, {"size": 1.5}, {"hosts": []},
        {"hosts": ["a", 3]}, {"hosts": 7}, {"hosts": ["a", "b"]}, {"scan": 5}, {"capacity": "nowhere"},
        {"options": 3},
    ],
)  # fmt: skip
def test_wrong_options_end_as_input_errors(map_: netprobe.Map, options: dict[str, Any]) -> None:
    with pytest.raises(netprobe.InputError):
        netprobe.plan_order(map_, **options)


@pytest.mark.parametrize(
    "options",
    [{"k": 0}, {"k": "2"}, {"k": 99}, {"groups": "natrual"}, {"seed": -1}, {"seed": 1.0}, {"like": 3}],
)
def test_wrong_options_of_a_map_end_as_input_errors(scan: netprobe.Scan, options: dict[str, Any]) -> None:
    with pytest.raises(netprobe.InputError):
        netprobe.map_scan(scan, **options)


@pytest.mark.parametrize(
    "options", [{"algorithm": "ring"}, {"size": "0B"}, {"hosts": "no file"}, {"seed": True}]
)
def test_wrong_options_of_a_schedule_end_as_input_errors(map_: netprobe.Map, options: dict[str, Any]) -> None:
    with pytest.raises(netprobe.InputError):
        netprobe.plan_schedule(map_, **options)


def test_documents_of_another_kind_are_named(scan: netprobe.Scan, map_: netprobe.Map, folder: Path) -> None:
    for call in (lambda: netprobe.map_scan(map_), lambda: netprobe.plan_order(scan)):  # type: ignore[arg-type]
        with pytest.raises(netprobe.InputError):
            call()
    with pytest.raises(netprobe.DocumentError):
        netprobe.map_scan(folder / "map.json")
    with pytest.raises(netprobe.InputError):
        netprobe.load(folder, "mpa")  # type: ignore[call-overload]


def test_saving_never_replaces_unasked_and_leaves_nothing(
    map_: netprobe.Map, scan: netprobe.Scan, tmp_path: Path
) -> None:
    assert netprobe.save(map_, tmp_path) == tmp_path / "map.json"
    with pytest.raises(netprobe.OutputExistsError):
        netprobe.save(map_, tmp_path)
    netprobe.save(map_, tmp_path, force=True)
    with pytest.raises(netprobe.OutputExistsError):
        netprobe.save(scan, tmp_path / "map.json", force=True)
    with pytest.raises(netprobe.InputError):
        netprobe.save(map_, tmp_path / "none" / "map.json")
    with pytest.raises(netprobe.InputError):
        netprobe.save({"schema": "x"}, tmp_path)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["map.json"]


def test_what_python_shows_of_a_document_is_one_short_line(
    scan: netprobe.Scan, map_: netprobe.Map, folder: Path
) -> None:
    assert repr(scan) == "<Scan: 5 hosts, 20 of 20 links, rtt, ok>"
    assert repr(map_) == "<Map: 5 hosts, 2 groups, locality: cannot tell>"
    found = netprobe.load(folder)
    for one in (
        scan,
        map_,
        found.plan,
        found.capacity,
        found,
    ):
        assert len(repr(one)) < 200
        assert "\n" not in repr(one)
        assert type(one).__name__ in str(one)


def test_what_a_file_says_cannot_break_the_line(scan: netprobe.Scan, tmp_path: Path) -> None:
    odd = scan.measurements[0].model_copy(update={"id": "a\x1b[31m\n" * 200})
    shown = repr(scan.model_copy(update={"measurements": [odd]}))
    assert len(shown) < 200
    assert shown.isprintable()
    write_document(scan, tmp_path / "scan.json")
    assert repr(netprobe.load(tmp_path / "scan.json")) == repr(scan)
