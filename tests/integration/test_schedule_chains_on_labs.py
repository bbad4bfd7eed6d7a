"""scan -> map -> plan 2lha | ds-sync | auto -> verify on one lab: each plan that can run is proved on the wire."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.verify import Verify
from netprobe.lab import LabSpec, temporary
from netprobe.plan import load_plan

pytestmark = pytest.mark.lab
SPEC = {"name": "chains", "racks": [3, 3], "delay_inside": "50us", "delay_between": "2ms"}


@pytest.mark.timeout(400)
def test_what_a_scan_found_is_planned_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with temporary(LabSpec.from_spec(SPEC), seed=5) as lab:
        reach = ["--via", lab.via_template, "--python", sys.executable]
        scanned = [
            "scan",
            "--hosts",
            str(lab.hosts_path),
            *reach,
            "--probes",
            "20",
            "--out",
            str(tmp_path / "out"),
        ]
        assert run([*scanned, "--quiet"]) == 0, capsys.readouterr().err
        for command in ("2lha", "auto", "ds-sync"):
            plan = tmp_path / f"{command}.json"
            words = ["plan", command, str(tmp_path / "out" / "map.json"), "--out", str(plan), "--size", "1kB"]
            assert run([*words, "--quiet"]) == 0, capsys.readouterr().err
            verified = tmp_path / f"{command}.verify.json"
            words = [
                "verify",
                str(plan),
                *reach,
                "--time",
                "2s",
                "--precision",
                "50%",
                "--out",
                str(verified),
            ]
            code = run([*words, "--quiet"])
            said = capsys.readouterr().err
            if load_plan(plan).kind == "ds_sync":
                assert code == 2 and "only rank orders and schedules can be run" in said
                continue
            assert code == 0, said
            result = load_document(Verify, verified)
            assert result.proved == len(result.repetitions) > 0
            assert [one.kind for one in result.orders] == ["schedule", "order", "order"]
