"""launch through a real Slurm, whose nodes are hosts of a lab."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.document import write_document
from netprobe.core.hosts import make_host
from netprobe.lab import Lab, parse_spec, temporary
from tests.integration.slurm_cluster import SlurmCluster, slurm_is_missing, slurm_on
from tests.plan.fleets import order_plan

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.skipif(slurm_is_missing() is not None, reason=str(slurm_is_missing())),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec("{name: bysrun, racks: [3]}"), seed=31, sshd=True) as made:
        yield made


@pytest.fixture(scope="module")
def slurm(lab: Lab) -> Iterator[SlurmCluster]:
    with slurm_on(lab) as cluster:
        yield cluster


def test_srun_keeps_the_plans_order_and_its_exit_code_is_ours(
    lab: Lab, slurm: SlurmCluster, tmp_path: Path
) -> None:
    names = [group_host for group in lab.truth().groups for group_host in group.hosts]
    order = [names[1], names[2], names[0]]  # neither as written nor sorted
    plan = order_plan([make_host(name) for name in order], np.ones((3, 3)), keep_original="a test's own")
    write_document(plan, tmp_path / "plan.json")
    script = 'echo "$RANK $SLURMD_NODENAME $WORLD_SIZE"; [ "$RANK" != 2 ] || exit 7'
    argv = [sys.executable, "-m", "netprobe", "launch", str(tmp_path), "--via", "slurm", "--check"]
    done = subprocess.run(
        slurm.in_allocation([*argv, "--", "sh", "-c", script]),
        env=slurm.env, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert "3 of 3 ranks run where the plan puts them" in done.stderr
    assert done.returncode == 7
    said = {line for line in done.stdout.splitlines() if line.endswith(" 3")}
    assert said == {f"{name}: {rank} {name} 3" for rank, name in enumerate(order)}
