"""numpy and scipy are loaded on one thread, and what a command starts hears nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os
from netprobe.cli.options.numerics import load_numerics
load_numerics()
import numpy, scipy.linalg
print(os.environ.get("OPENBLAS_NUM_THREADS"), len(os.listdir("/proc/self/task")))
"""


def printed(**settings: str) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment | settings, stdout=subprocess.PIPE, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_the_libraries_have_one_thread_and_the_environment_is_as_it_was() -> None:
    assert printed() == ["None", "1"]


def test_a_setting_of_the_users_is_kept() -> None:
    assert printed(OPENBLAS_NUM_THREADS="2")[0] == "2"
