"""The program that runs a job's processes on a host: what it starts, what it passes on, and that it leaves nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netprobe.probe.agent import supervise
from netprobe.probe.agent.supervise import BEAT, CANNOT_RUN, END, NOT_FOUND

LONG_S = 600.0
"""A lease or a grace that no test waits for."""
WAIT = ["/bin/sh", "-c", "echo up; exec sleep 1000"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


class Supervised:
    """The program in a process of its own, and its input."""

    def __init__(self, argv: list[str], **changes: Any) -> None:
        order = {
            "argv": argv, "env": {}, "each": [{}], "folder": None, "folder_needed": False, "lease_s": LONG_S,
            "grace_s": LONG_S, **changes,
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-ISB", supervise.__file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        text = json.dumps(order).encode()
        self.input.write(b"%08x" % len(text) + text)

    def line(self) -> str:
        """The next line that the job prints."""
        return self.output.readline().decode().strip()

    def ended(self) -> int:
        """The exit code, long before a lease or a grace of LONG_S is over."""
        return self.process.wait(60)


@contextlib.contextmanager
def supervised(argv: list[str], **changes: Any) -> Iterator[Supervised]:
    own = Supervised(argv, **changes)
    try:
        yield own
    finally:
        own.process.kill()
        own.process.__exit__(None, None, None)


def is_gone(pid: int) -> bool:
    """Whether a process ends within a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_each_process_has_its_variables_a_session_of_its_own_and_no_input() -> None:
    os.environ["NETPROBE_A"] = "inherited"
    try:
        code = (
            "read _ _ _ _ _ session _ </proc/$$/stat; echo $NETPROBE_A $B $C $$ $session; read _ || echo none"
        )
        own: dict[str, Any] = {
            "env": {"B": "all", "C": "all"},
            "each": [{"C": "0"}, {"C": "1", "NETPROBE_A": "given"}],
        }
        with supervised(["/bin/sh", "-c", code], **own) as job:
            returned = job.ended()
            out, err = job.process.communicate()
    finally:
        del os.environ["NETPROBE_A"]
    lines = sorted(line.split() for line in out.decode().splitlines())
    assert err == b"" and returned == 0
    assert [line[:3] for line in lines] == [
        ["given", "all", "1"],
        ["inherited", "all", "0"],
        ["none"],
        ["none"],
    ]
    pids = [line[3:] for line in lines[:2]]
    assert all(pid == session for pid, session in pids) and pids[0] != pids[1]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -9 $$", 128 + signal.SIGKILL),
        ("kill -15 $$", 128 + signal.SIGTERM),
    ],
)
def test_its_exit_code_is_that_of_the_job(script: str, code: int) -> None:
    with supervised(["/bin/sh", "-c", script]) as job:
        assert job.ended() == code


def test_one_that_fails_ends_the_others_and_gives_its_code() -> None:
    each = [{"CODE": "0"}, {"CODE": "5"}]
    script = 'if [ $CODE = 5 ]; then exit 5; fi; trap "exit 9" TERM; while :; do sleep 0.01; done'
    with supervised(["/bin/sh", "-c", script], each=each) as job:
        assert job.ended() in (5, 9)  # the other may have been asked to end before the first was looked at


@pytest.mark.parametrize(("argv", "code"), [(["/nowhere/at/all"], NOT_FOUND), (["/etc/passwd"], CANNOT_RUN)])
def test_what_cannot_be_run_is_said(argv: list[str], code: int) -> None:
    with supervised(argv, each=[{}, {}]) as job:
        assert job.ended() == code
        _, err = job.process.communicate()
    assert err.decode().count(argv[0]) == 1


@pytest.mark.parametrize("needed", [True, False])
def test_a_folder_that_is_not_there_matters_where_it_is_needed(needed: bool, tmp_path: Path) -> None:
    with supervised(["/bin/sh", "-c", "pwd"], folder="/nowhere", folder_needed=needed) as job:
        assert job.ended() == (CANNOT_RUN if needed else 0)
    with supervised(["/bin/sh", "-c", "pwd"], folder=str(tmp_path), folder_needed=needed) as job:
        assert job.line() == str(tmp_path)


@pytest.mark.parametrize("how", ["end of input", "END", "SIGTERM", "the lease"])
def test_the_job_is_asked_to_end(how: str) -> None:
    with supervised(WAIT, lease_s=0.2 if how == "the lease" else LONG_S) as job:
        assert how == "the lease" or job.line() == "up"
        if how == "end of input":
            job.input.close()
        elif how == "END":
            job.input.write(bytes([BEAT, END]))
        elif how == "SIGTERM":
            job.process.send_signal(signal.SIGTERM)
        assert job.ended() == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGINT])
def test_a_signal_is_passed_on_and_the_job_lives(number: signal.Signals) -> None:
    script = f'trap "echo got" {number.name[3:]}; echo up; while :; do sleep 0.01; done'
    with supervised(["/bin/sh", "-c", script]) as job:
        assert job.line() == "up"
        job.input.write(bytes([BEAT, number]))
        assert job.line() == "got"
        job.input.write(bytes([signal.SIGKILL]))  # not asked, but ended
        assert job.ended() == 128 + signal.SIGKILL


def test_what_does_not_end_when_asked_is_killed_after_the_grace() -> None:
    script = 'trap "" TERM; echo up; while :; do sleep 0.01; done'
    with supervised(["/bin/sh", "-c", script], grace_s=0.3) as job:
        assert job.line() == "up"
        job.input.write(bytes([END]))
        assert job.ended() == 128 + signal.SIGKILL


def test_what_a_job_left_in_the_background_ends_too_in_a_session_of_its_own() -> None:
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(1000)\n"
    )
    with supervised([sys.executable, "-ISc", code], grace_s=0.3) as job:
        left = int(job.line())
        assert job.ended() == 0
        assert is_gone(left)


def test_nothing_outlives_a_supervisor_that_is_killed() -> None:
    with supervised(["/bin/sh", "-c", "echo $$; exec sleep 1000"]) as job:
        pid = int(job.line())
        job.process.kill()
        assert job.ended() == -signal.SIGKILL and is_gone(pid)


def test_without_prctl_it_says_so_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: object) -> object:
        raise OSError

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert supervise._find_prctl()(1, 9) is False


def test_descendants_are_all_that_a_process_started_and_they_started() -> None:
    code = "import subprocess,sys; p=subprocess.Popen(['sleep','1000']); print(p.pid, flush=True); p.wait()"
    child = subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        below = int(child.stdout.readline())
        assert supervise._descendants(child.pid) == [below]
        assert {child.pid, below} <= set(supervise._descendants(os.getpid()))
        assert supervise._descendants(below) == []
        os.kill(below, signal.SIGKILL)
    finally:
        child.kill()
        child.communicate()
