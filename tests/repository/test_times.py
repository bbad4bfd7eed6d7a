"""The table at the end of `make test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_times_are_summed_by_kind_and_by_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        "1.5\ttests/plan/search/test_ring.py::test_a[x::y]\n0.25\ttests/plan/search/test_ring.py::test_a[x::y]\n"
        "2.0\ttests/plan/test_parts.py::test_b\n"
    )
    (tmp_path / "b").write_text("30\ttests/lab/spec/test_faults.py::test_c\n")
    kinds = [f"without={tmp_path / 'a'}", f"labs={tmp_path / 'b'}", f"not run={tmp_path / 'c'}"]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "test_times.py", *kinds],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["time", "by", "kind", "of", "test", "(of", "all", "workers", "together):"],
        ["3.8", "s", "2", "tests", "without"],
        ["30.0", "s", "1", "tests", "labs"],
        ["the", "3", "costliest", "folders:"],
        ["30.0", "s", "tests/lab/spec", "(labs)"],
        ["2.0", "s", "tests/plan", "(without)"],
        ["1.8", "s", "tests/plan/search", "(without)"],
    ]
