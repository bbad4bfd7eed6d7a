"""The examples, run as they are on labs: the notebook, and jobs started by torchrun, mpirun and sbatch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.documents.document import load_document
from netprobe.core.documents.plan import OrderPlan
from netprobe.lab import Lab, parse_spec, temporary
from tests.integration.slurm_cluster import slurm_is_missing, slurm_on
from tests.repository.project import ROOT

pytestmark = pytest.mark.lab
EXAMPLES = ROOT / "examples"
SAYS = 'echo "rank ${SLURM_PROCID:-$OMPI_COMM_WORLD_RANK} on ${SLURMD_NODENAME:-$(uname -n)}"'


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec("{name: examples, racks: [2, 2]}"), seed=5) as made:
        yield made


@pytest.fixture
def env(lab: Lab, tmp_path: Path) -> dict[str, str]:
    """An environment in which ``netprobe`` reaches the lab's hosts, where a user's would go by ssh."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    script = (
        "#!/bin/bash\ncommand=$1\nshift\n"
        f'case "$command $*" in export*|*--via*) ;; *) set -- --via \'{lab.via_template}\' "$@" ;; esac\n'
        f'exec {sys.executable} -m netprobe "$command" "$@"\n'
    )
    (folder / "netprobe").write_text(script)
    (folder / "netprobe").chmod(0o755)
    (folder / "activate").write_text(f"PATH={folder}:$PATH\n")
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        **os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OUT": str(tmp_path / "out"), "OMP_NUM_THREADS": "1",
        "NETPROBE_VENV": str(tmp_path / "venv"), "INTERFACE": "eth0",
    }  # fmt: skip


def run(argv: list[str], env: dict[str, str], folder: Path) -> str:
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, (done.stdout[-1500:], done.stderr[-2500:])
    return done.stdout


def order_in(folder: Path) -> list[str]:
    return list(load_document(OrderPlan, folder / "plan.json").order)


def ranks_in(text: str) -> list[str]:
    """The hosts that said which rank they run, in the order of the ranks."""
    return [
        host
        for _, host in sorted((int(rank), host) for rank, host in re.findall(r"rank (\d+) on (\S+)", text))
    ]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Jupyter's own runner where it is installed; its cells one after the other elsewhere, but for pandas."""
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    try:
        import nbclient
        import nbformat
        import pandas  # noqa: F401
    except ModuleNotFoundError:
        names: dict[str, Any] = {}
        for cell in cells:
            if "to_pandas" not in cell:
                exec(compile(cell, "examples/notebook.ipynb", "exec"), names)
        assert names["plan"].order and len(names["found"].groups) == 3
        return
    ran = nbformat.reads(json.dumps(notebook), as_version=4)
    nbclient.NotebookClient(ran, timeout=240, kernel_name="python3").execute()
    shown = [output for cell in ran.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<svg" in output.get("data", {}).get("text/html", "") for output in shown)
    assert shown[-1]["data"]["text/plain"] == "True"


@pytest.mark.long
def test_torchrun_trains_in_the_order_found(lab: Lab, env: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    train = [str(EXAMPLES / "train_ddp.py"), f"{env['OUT']}/plan.json"]
    argv = [str(EXAMPLES / "torchrun.sh"), str(lab.hosts_path), *train]
    text = run(lab.exec_argv(None, argv), env, tmp_path)
    ranks = dict(re.findall(r"^(\S+): rank (\d) loss [\d.]+ same weights True", text, re.MULTILINE))
    order = order_in(Path(env["OUT"]))
    assert ranks == {host: str(rank) for rank, host in enumerate(order)}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_mpirun_starts_the_ranks_in_the_order_found(lab: Lab, env: dict[str, str], tmp_path: Path) -> None:
    agent = f"/bin/sh {lab.directory}/rsh-agent"
    env |= {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": agent,
    }
    argv = [str(EXAMPLES / "mpi.sh"), str(lab.hosts_path), "sh", "-c", SAYS]
    text = run(lab.exec_argv(None, argv), env, tmp_path)
    assert ranks_in(text) == order_in(Path(env["OUT"]))


@pytest.mark.long
@pytest.mark.skipif(slurm_is_missing() is not None, reason=str(slurm_is_missing()))
def test_sbatch_starts_the_ranks_in_the_order_found(lab: Lab, env: dict[str, str], tmp_path: Path) -> None:
    with slurm_on(lab) as slurm:
        argv = ["sbatch", "--wait", f"--nodes={len(lab.hosts)}", f"--chdir={tmp_path}", "--output=log"]
        argv += [str(EXAMPLES / "slurm.sbatch"), "sh", "-c", SAYS]
        job = {
            **slurm.env,
            **env,
            "SLURM_CONF": slurm.env["SLURM_CONF"],
            "PATH": env["PATH"] + ":/usr/sbin:/sbin",
        }
        done = subprocess.run(slurm.argv(argv), env=job, capture_output=True, text=True, timeout=240)
        log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
        assert done.returncode == 0, (done.stderr, log[-3000:])
    (folder,) = tmp_path.glob("netprobe-*")
    assert ranks_in(log) == order_in(folder)
