"""runtime/worker.py: jobs in turn, and an end that comes before the interpreter's."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from netprobe.runtime.worker import Worker

ROOT = Path(__file__).resolve().parents[2]


def test_jobs_are_done_in_turn_and_then_it_ends() -> None:
    done: list[int] = []
    worker = Worker("a-worker")
    for number in range(100):
        worker.put(lambda number=number: done.append(number))  # type: ignore[misc]
    worker.end()
    assert done == list(range(100)) and not worker.thread.is_alive()
    worker.end()  # once is enough


def test_a_worker_that_nobody_has_any_more_ends() -> None:
    worker = Worker("a-worker")
    ended = threading.Event()
    worker.put(ended.set)
    thread = worker.thread
    del worker
    assert ended.wait(60)
    thread.join(60)
    assert not thread.is_alive()


def ended_by(script: str) -> subprocess.CompletedProcess[str]:
    """A program of its own with ``script`` after the import."""
    text = f"import sys, time\nfrom netprobe.runtime.worker import Worker\nworker = Worker('w')\n{script}"
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, cwd=ROOT, check=False
    )


def test_a_program_that_ends_lets_the_last_job_end() -> None:
    done = ended_by("worker.put(lambda: (time.sleep(0.3), print('done', flush=True)))")
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr


def test_a_job_that_never_ends_does_not_keep_the_program() -> None:
    done = ended_by("worker.put(lambda: time.sleep(1000))\nprint('over', flush=True)")
    assert done.returncode == 0 and done.stdout == "over\n", done.stderr


def test_a_program_that_ends_while_a_job_is_in_torchs_code_is_not_aborted() -> None:
    pytest.importorskip("torch")
    job = "import torch\ndef job():\n f = torch.futures.Future()\n f.then(lambda _: 1)\n f.set_result(None)\n"
    done = ended_by(f"{job}for _ in range(20000): worker.put(job)")
    assert done.returncode == 0 and done.stderr == ""
