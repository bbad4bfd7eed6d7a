"""What a person sees on a terminal, as tmux records it: every stage moves, and a pipe gets none of it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
STAGE = re.compile(r"^(?P<stage>[a-z][a-z ]*?) (?P<moving>.*[━╸╺].*?) *(?P<elapsed>\d+:\d\d:\d\d)\s*$")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MOST_S = 240.0


def recorded(argv: list[str], folder: Path) -> dict[str, tuple[set[str], int]]:
    """For each stage the different states of its line, colours and all but the clock, and its seconds by that clock."""
    socket = str(folder / "tmux")
    tmux = ["tmux", "-f", "/dev/null", "-S", socket]
    command = shlex.join([sys.executable, "-m", "netprobe", *argv])
    subprocess.run([*tmux, "new-session", "-d", "-x", "150", "-y", "40", command], check=True, timeout=60)
    states: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, int] = defaultdict(int)
    deadline = time.monotonic() + MOST_S
    try:
        while time.monotonic() < deadline:
            shot = subprocess.run(
                [*tmux, "capture-pane", "-p", "-e"], capture_output=True, text=True, timeout=60
            )
            if shot.returncode != 0:  # the command has ended, and its terminal with it
                break
            for line in shot.stdout.splitlines():
                found = STAGE.match(COLOURS.sub("", line))
                if found is None:
                    continue
                hours, minutes, rest = map(int, found["elapsed"].split(":"))
                name = " ".join(found["stage"].split())
                states[name].add(line.rpartition(found["elapsed"])[0])
                seconds[name] = max(seconds[name], 3600 * hours + 60 * minutes + rest)
            time.sleep(0.15)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, timeout=60, check=False)
    return {name: (states[name], seconds[name]) for name in states}


def test_each_stage_of_more_than_two_seconds_moves_on_a_terminal(tmp_path: Path) -> None:
    first, hosts = str(tmp_path / "first"), "a,b,c,d,e,f,g,h"
    stages = recorded(["scan", "--hosts", hosts, "--via", "local", "--out", first, "--verify"], tmp_path)
    assert any(name.startswith("probing") for name in stages)
    stages |= recorded(["plan", "auto", first, "--out", str(tmp_path / "auto.json")], tmp_path)
    stages |= recorded(["verify", first, "--time", "8", "--against", "random"], tmp_path)
    frozen = [name for name, (states, seconds) in stages.items() if seconds > 2 and len(states) < 2]
    assert frozen == []


def test_a_pipe_gets_no_bar(tmp_path: Path) -> None:
    argv = ["scan", "--hosts", "a,b,c", "--via", "local", "--out", str(tmp_path / "first")]
    done = subprocess.run(
        [sys.executable, "-m", "netprobe", *argv], capture_output=True, text=True, timeout=120, check=True
    )
    assert not re.search("[━╸╺\x1b\r]", done.stdout + done.stderr)
