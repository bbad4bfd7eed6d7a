"""The examples without a fleet: shells read the scripts, the manifest is a Job whose pods wait, the pages name each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repository.project import ROOT

EXAMPLES = ROOT / "examples"
SCRIPTS = [*EXAMPLES.glob("*.sh"), *EXAMPLES.glob("*.sbatch")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_its_shell_can_read_each_script(script: Path) -> None:
    shell = script.read_text(encoding="utf-8").splitlines()[0].removeprefix("#!")
    subprocess.run([shell, "-n", str(script)], check=True)


def test_a_page_leads_to_each_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    named = sorted(path.name for path in EXAMPLES.iterdir() if path.is_file())
    assert [name for name in named if f"](../examples/{name})" not in page] == []


def test_the_pods_of_the_job_wait_until_they_are_stopped() -> None:
    job: Any = yaml.safe_load((EXAMPLES / "kubernetes-job.yaml").read_text(encoding="utf-8"))
    spec, pods = job["spec"], job["spec"]["template"]["spec"]
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert spec["completions"] == spec["parallelism"]  # or some pods wait for others that never end
    (rule,) = pods["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    (container,) = pods["containers"]
    waiting = subprocess.Popen([sys.executable, *container["command"][1:]])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.3)
        waiting.send_signal(signal.SIGTERM)
        # By the signal itself where a slow interpreter was not yet up.
        assert waiting.wait(60) in (0, -signal.SIGTERM)
    finally:
        waiting.kill()
        waiting.wait()


def test_the_notebook_is_whole_and_has_no_results_in_it() -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = notebook["cells"]
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert cell["cell_type"] in ("markdown", "code")
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), "examples/notebook.ipynb", "exec")
    try:
        import nbformat
    except ModuleNotFoundError:
        return
    nbformat.validate(nbformat.from_dict(notebook))
