"""A verify that large packets never come through says on which links."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.errors import EXIT_NOTHING_MEASURED
from netprobe.lab import parse_spec, set_value, temporary

pytestmark = [pytest.mark.lab, pytest.mark.long]


def test_a_verify_that_stops_names_the_links_that_swallow_large_packets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with temporary(parse_spec("{name: mtu-verify, racks: [2, 2]}"), seed=5) as lab:
        via = ["--via", lab.via_template, "--python", sys.executable]
        scan = ["scan", "--hosts", str(lab.hosts_path), *via, "--probes", "10", "--out", str(out), "--quiet"]
        assert run(scan) == 0
        set_value(lab, "rack0:rack1", "mtu", "1400")
        capsys.readouterr()
        verify = ["verify", str(out / "plan.json"), "--map", str(out / "map.json"), *via]
        assert run([*verify, "--size", "1MB", "--against", "random"]) == EXIT_NOTHING_MEASURED
    said = capsys.readouterr().err
    assert "the path MTU is below that of the interfaces" in said and "1400 of 1500 bytes" in said
