"""The example under torchrun, with ranks of one machine as the plan's hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from netprobe.core.documents.document import write_document
from tests.runtime.ds_sync.worlds import plan_of

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


def test_the_example_trains_one_model_under_torchrun(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    write_document(plan_of([2, 1]), plan)
    script = f"NETPROBE_HOST=h$RANK exec {sys.executable} {ROOT / 'examples' / 'train_ds_sync.py'} {plan}"
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", "--no-python",
            "sh", "-c", script,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    models = re.findall(r"rank (\d) loss [0-9.]+ model (\S+)", done.stdout)
    assert sorted(rank for rank, _ in models) == ["0", "1", "2"]
    assert len({model for _, model in models}) == 1
