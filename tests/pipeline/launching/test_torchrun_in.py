"""torchrun is found where it stands, also behind other words, and nowhere else."""

from __future__ import annotations

import shlex

import pytest

from netprobe.pipeline.launching.parts import torchrun_in


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("torchrun --nproc-per-node=2 t.py", "--nproc-per-node=2"),
        ("/opt/venv/bin/torchrun t.py", "t.py"),
        ("nice torchrun t.py", "t.py"),
        ("numactl --cpunodebind=0 torchrun t.py", "t.py"),
        ("env X=1 chrt --idle 0 python3.11 -u -m torch.distributed.run t.py", "t.py"),
        ("python -m torch.distributed.run t.py", "t.py"),
    ],
)
def test_its_options_begin_behind_it(program: str, options: str) -> None:
    words = shlex.split(program)
    at = torchrun_in(words)
    assert at is not None and words[at] == options


@pytest.mark.parametrize(
    "program",
    [
        "./job",
        "python t.py torchrun",
        "python -m other torchrun",
        "nice python -u t.py torchrun",
        "hostname -s",
    ],
)
def test_other_programs_are_none(program: str) -> None:
    assert torchrun_in(shlex.split(program)) is None
