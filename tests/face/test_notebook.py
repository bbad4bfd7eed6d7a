"""Documents shown: HTML with the heat map for notebooks, text elsewhere; as tables of pandas and xarray."""

from __future__ import annotations

import io
import re
import sys
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import netprobe
from netprobe.core.documents.notebook import MOST_CELLS, heat_map_svg
from tests.documents import capacity_of, make_scan, rack_rtt, rack_scan

HOSTILE = "<script>alert(1)</script>"


def html_of(document: Any) -> str:
    text = document._repr_html_()
    ElementTree.fromstring(text)  # whole, and every tag closed
    return str(text)


def test_a_scan_and_a_map_are_drawn_in_notebooks() -> None:
    scan, _ = rack_scan([3, 2])
    map_ = netprobe.map_scan(scan)
    for document in (scan, map_):
        text = html_of(document)
        assert text.count("<rect ") == 20
        assert all(host.name in text for host in scan.hosts)
    others = (
        netprobe.plan_order(map_, scan=scan),
        capacity_of(map_),
    )
    for other in others:
        assert type(other).__name__ in html_of(other)


def test_far_links_and_missing_ones_have_their_own_colours() -> None:
    cells = np.array([[0, 1e-4, np.nan], [1e-4, 0, 3e-4], [np.nan, 3e-4, 0]])
    text = heat_map_svg(["a", "b", "c"], cells, unit_text=lambda s: f"{s * 1e6:.0f} us", what="RTT")
    colour = {title: fill for fill, title in re.findall(r'fill="([^"]+)"><title>([^<]*)', text)}
    assert colour["a to b: 100 us"] == "#1a9850"
    assert colour["b to c: 300 us"] == "#a50026"
    assert colour["a to c: no reading"] == "#d9d9d9"
    assert "no link has a reading" in heat_map_svg(["a"], np.zeros((1, 1)), unit_text=str, what="RTT")


def test_what_hosts_are_called_is_text_and_never_html() -> None:
    scan = make_scan(rack_rtt([1, 1], seed=0))
    hosts = [
        scan.hosts[0].model_copy(update={"name": HOSTILE, "status": "failed", "reason": HOSTILE}),
        scan.hosts[1],
    ]
    text = html_of(scan.model_copy(update={"hosts": hosts}))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_large_fleet_is_drawn_small() -> None:
    scan = make_scan(rack_rtt([100, 100], seed=0), visits=False)
    text = html_of(scan)
    assert text.count("<rect ") <= MOST_CELLS**2
    assert "median of 4 x 4 links" in text


def test_show_writes_what_the_command_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan, _ = rack_scan([3, 2])
    map_ = netprobe.map_scan(scan)
    plan = netprobe.plan_order(map_, scan=scan)
    for document in (scan, map_, plan):
        netprobe.save(document, tmp_path)
    stream = io.StringIO()
    netprobe.show(tmp_path, file=stream)
    text = stream.getvalue()
    assert map_.verdict.text in text
    assert plan.order[0] in text
    assert "\x1b" not in text
    netprobe.show(str(tmp_path))
    assert capsys.readouterr().out == text
    whatever: list[Any] = [scan, map_, plan, capacity_of(map_), netprobe.load(tmp_path)]
    for one in whatever:
        netprobe.show(one, file=io.StringIO())
    for wrong in (None, 3, "nowhere", [scan]):
        with pytest.raises(netprobe.InputError):
            netprobe.show(wrong)  # type: ignore[arg-type]


def test_show_displays_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = shown.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    scan, _ = rack_scan([2, 1])
    netprobe.show(scan)
    assert shown == [scan]


class Recorder:
    """A stand-in for DataFrame and Dataset that keeps what it was made of."""

    def __init__(self, data: dict[str, Any], **options: Any) -> None:
        self.data, self.options = data, options


def test_columns_and_rows_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed to pandas and xarray; with the real ones where they are installed, below."""
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=Recorder))
    monkeypatch.setitem(sys.modules, "xarray", types.SimpleNamespace(Dataset=Recorder))
    scan, _ = rack_scan([2, 1])
    map_ = netprobe.map_scan(scan)
    names = [host.name for host in scan.hosts]
    frame: Any = scan.to_pandas()
    assert list(zip(frame.data["src"], frame.data["dst"])) == [(a, b) for a in names for b in names if a != b]
    assert frame.data["rtt_p10_s"].tolist() == [
        scan.rtt_s.p10[i, j] for i in range(3) for j in range(3) if i != j
    ]
    of: Any = map_.to_pandas()
    group = {name: one.id for one in map_.groups for name in one.hosts}
    assert list(of.data["dst_group"]) == [group[name] for name in of.data["dst"]]
    data: Any = map_.to_xarray()
    assert data.data["distance_s"][0] == ("src", "dst")
    assert data.data["distance_s"][2] == {"units": "s"}
    assert data.options["coords"]["src_group"] == ("src", [group[name] for name in names])
    changed: Any = scan.to_xarray()
    changed.data["rtt_p10_s"][1][:] = 0.0
    assert scan.rtt_s.p10[0, 1] > 0


def test_real_tables() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    scan, _ = rack_scan([2, 1])
    map_ = netprobe.map_scan(scan)
    frame = scan.to_pandas()
    assert frame.shape == (6, 9)
    assert map_.to_pandas().groupby(["src_group", "dst_group"])["distance_s"].median().size >= 1
    src, dst = scan.hosts[0].name, scan.hosts[2].name
    assert float(scan.to_xarray()["rtt_p10_s"].sel(src=src, dst=dst)) == scan.rtt_s.p10[0, 2]
    assert map_.to_xarray()["distance_s"].attrs["units"] == "s"


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("xarray", "to_xarray")])
def test_a_package_that_is_missing_is_named(
    package: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    scan, _ = rack_scan([2, 1])
    for document in (scan, netprobe.map_scan(scan)):
        with pytest.raises(netprobe.PlatformError) as caught:
            getattr(document, method)()
        assert package in str(caught.value)
