"""DistributedDataParallel with a plan's hook; ranks that are not those of the plan; the example under torchrun."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from netprobe.core.hosts import Host
from netprobe.pipeline import files
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.document import Placement
from tests.runtime import jobs
from tests.runtime.pool import Pool

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", ["plain", "no_sync", "unused", "bfloat16", "float16", "autotune"])
def test_gradients_are_those_of_plain_data_parallel(pool: Pool, kind: str) -> None:
    plan = jobs.plan_of(two_level([[0, 1], [2]], 6))
    allowed = {"bfloat16": 0.02, "float16": 0.003}.get(kind, 1e-6)
    assert all(max(apart) <= allowed for apart in pool.run(jobs.train, plan, kind, ranks=3))


def test_ranks_elsewhere_are_named_and_the_fallback_is_torchs_own(pool: Pool) -> None:
    plan = jobs.plan_of(build("chunked-ring", 3))
    assert pool.run(jobs.refusals, plan, ["h0", "h1", "h2"], ranks=3) == [("", (), False)] * 3
    moved = pool.run(jobs.refusals, plan, ["h0", "h2", "h1"], ranks=3)
    assert moved == [("WrongWorldError", (1, 2), True)] * 3
    foreign = pool.run(jobs.refusals, plan, ["h0", "h1", "h9"], ranks=3)
    assert foreign == [("WrongWorldError", (2,), True)] * 3


def test_a_world_of_another_size_is_refused_by_all(pool: Pool) -> None:
    plan = jobs.plan_of(build("chunked-ring", 3))
    found = pool.run(jobs.refusals, plan, ["h0", "h1"], ranks=2)
    assert found == [("WrongWorldError", (), True)] * 2


def test_a_rank_without_the_plan_stops_all(pool: Pool, tmp_path: Path) -> None:
    found = pool.run(jobs.refusals, str(tmp_path / "none.json"), ["h0", "h1"], ranks=2)
    assert [said for said, _, _ in found] == ["InputError"] * 2


@pytest.mark.slow
def test_the_example_trains_under_torchrun(tmp_path: Path) -> None:
    """Two processes of this machine; both lines are in it. The plan has the hosts the other way round."""
    hosts = [Host(name="h0"), Host(name="h1")]
    plan = build_schedule_plan(build("chunked-ring", 2), Placement(hosts=hosts, order=["h1", "h0"]))
    files.save(plan, tmp_path / "plan.json")
    code = "import os, runpy, sys; os.environ['NETPROBE_HOST'] = 'h' + os.environ['RANK']; sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    starter = tmp_path / "start.py"
    starter.write_text(code)
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(starter)]
    ran = subprocess.run(
        [sys.executable, *argv, str(ROOT / "examples" / "train_ddp.py"), str(tmp_path / "plan.json")],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stderr[-2000:]
    # Two processes write to one stream, so that lines may run together.
    assert sorted(re.findall(r"rank (\d+)\b(?:(?!rank ).)*same weights True", ran.stdout)) == ["0", "1"], (
        ran.stdout
    )
