"""A disk that takes scan.json and not its samples: the journal has them, and ``--resume`` takes them from it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import load_document
from netprobe.core.documents.matrix import SideFile
from netprobe.core.documents.scan import Scan
from netprobe.pipeline import files
from netprobe.pipeline.resuming.killed_scan import find_earlier
from netprobe.pipeline.scanning import scan as scanning
from netprobe.probe.records.result import ScanOutcome

SCAN = [
    "scan",
    "--hosts",
    "h[1-3]",
    "--via",
    "local",
    "--full-visits",
    "--probes",
    "400",
    "--interval",
    "0.0005",
    "--only",
    "scan",
]
PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("rewritten", [True, False], ids=["said in the document", "the document names them"])
def test_samples_that_the_disk_did_not_take_come_from_the_journal(
    rewritten: bool, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, filler, kept = disk / "out", disk / "filler", list[ScanOutcome]()
    real = scanning.write_outcome

    def nearly_full(outcome: ScanOutcome, folder: Path) -> Scan:
        kept.append(outcome)
        files.save(outcome.scan, disk.parent / "size.json")
        pages = -(-(disk.parent / "size.json").stat().st_size // PAGE) + 1
        left = (2 * pages if rewritten else pages) * PAGE
        free = shutil.disk_usage(disk).free
        assert len(SideFile(name=files.SAMPLES, arrays=outcome.samples).to_bytes()) > left
        filler.write_bytes(bytes(free - left))
        return real(outcome, folder)

    monkeypatch.setattr(scanning, "write_outcome", nearly_full)
    code = run([*SCAN, "--out", str(out)])
    printed = capsys.readouterr()
    said = printed.out + printed.err
    assert code == (0 if rewritten else 2), said
    assert "the samples are lost here" in said and "--resume takes them from the journal" in said
    assert not (out / files.SAMPLES).exists()
    assert (load_document(Scan, out / files.SCAN).samples is None) is rewritten
    filler.unlink()
    monkeypatch.setattr(scanning, "write_outcome", real)
    assert run(["scan", "--out", str(out), "--resume", "--via", "local", "--only", "scan"]) == 0
    resumed = capsys.readouterr()
    assert "its samples are taken from the journal" in resumed.out + resumed.err
    scan = load_document(Scan, out / files.SCAN)
    assert scan.samples is not None and not any("samples" in warning for warning in scan.warnings)
    assert find_earlier(out).scan is not None and not find_earlier(out).lacks_samples
    with np.load(out / files.SAMPLES) as restored:
        for key, array in kept[0].samples.items():
            assert np.array_equal(restored[key], array), key


def test_a_journal_without_all_visits_restores_nothing_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run([*SCAN, "--out", str(out)]) == 0
    (out / files.SAMPLES).unlink()
    lines = (out / files.JOURNAL).read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if line.startswith('{"visit"'))
    (out / files.JOURNAL).write_text("".join(lines[:last] + lines[last + 1 :]))
    capsys.readouterr()
    assert run(["scan", "--out", str(out), "--resume", "--via", "local", "--only", "scan", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any("the samples are lost: the journal has 5 of its 6 visits" in text for text in said["warnings"])
    assert not (out / files.SAMPLES).exists()
