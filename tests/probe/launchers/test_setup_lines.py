"""Shell lines before Python: they set what Python inherits, and touch nothing else."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.probe.launchers.bootstrap import READY, SETUP, SILENT_SETUP, new_payload
from netprobe.probe.launchers.diagnose import explain
from netprobe.probe.launchers.exec_launcher import ExecLauncher
from netprobe.probe.records.options import ScanOptions
from tests.probe.conftest import hosts_named

READ = "import os, sys; print(sys.stdin.read(), os.environ.get('MARK'), sys.argv[1:])"


def run(setup: str, shell: str = "sh") -> subprocess.CompletedProcess[str]:
    payload = new_payload(lease_s=5, python=sys.executable, setup=setup)
    command = payload.command("python3")
    assert command[:2] == ["sh", "-c"]
    argv = [shell, *command[1:4], sys.executable, "-c", READ, "one word"]
    stream = payload.parts()[0].decode() + "stream"
    done = subprocess.run(argv, input=stream, capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout.startswith(READY.decode())
    done.stdout = done.stdout.removeprefix(READY.decode())
    return done


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_they_export_is_there_and_the_stream_is_whole(shell: str) -> None:
    done = run("cat; read x; echo noise\nMARK='it is \"set\"' # why\nexport MARK", shell)
    assert (done.returncode, done.stdout) == (0, "stream it is \"set\" ['one word']\n")
    assert done.stderr == "noise\n"


@pytest.mark.parametrize(("setup", "code"), [("false", 1), ("nonexistent-program", 127), ("(exit 9)", 9)])
def test_lines_that_fail_are_one_clear_reason(setup: str, code: int) -> None:
    done = run(setup)
    assert done.returncode == 3 and done.stdout == ""
    found = explain(stderr=done.stderr, stdout="", code=3, target="h", python="python3", cause="x")
    assert found.reason == f"the set-up lines (--setup) failed on the host with exit code {code}"


def test_a_syntax_error_ends_it_before_python_starts() -> None:
    done = run("if then")
    assert done.returncode != 0 and done.stdout == "" and done.stderr


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=40))
def test_they_are_in_no_argument_and_first_in_the_stream(setup: str) -> None:
    payload = new_payload(lease_s=5, setup=setup)
    for announces, script in ((True, SETUP), (False, SILENT_SETUP)):
        command = payload.command("python3", announces=announces)
        assert command[:5] == ["sh", "-c", script, "netprobe-setup", "python3"]
        # What csh reads even inside single quotes, and fish.
        assert not re.search(r"[!\n\\]", " ".join(command))
        assert READY.decode().strip() not in " ".join(command)
    number, _, rest = payload.parts()[0].decode().partition("\n")
    assert rest == setup + "\n" and int(number) == rest.count("\n")
    assert payload.stream() == b"".join(payload.parts())


def test_lines_that_never_come_start_nothing() -> None:
    command = new_payload(lease_s=5, setup="true").command("python3")
    argv = [*command[:4], sys.executable, "-c", "print('started')"]
    for stream in ("", "2\ntrue\n"):
        done = subprocess.run(argv, input=stream, capture_output=True, text=True, timeout=20)
        assert done.returncode == 3 and "started" not in done.stdout


def test_no_name_of_a_host_is_read_by_the_shell() -> None:
    command = new_payload(lease_s=5, setup="true").command("python3")
    (host,) = hosts_named("h1")
    host = host.model_copy(update={"target": "$(reboot)"})
    argv = ExecLauncher("env {target}").argv(host, command)
    assert argv == ["env", "$(reboot)", *command]
    assert not any("reboot" in word for word in argv[2:])


@pytest.mark.parametrize("setup", ["", "  \n", "a\0b", "a\x1bb", "x" * 20_000])
def test_lines_that_are_none_are_refused(setup: str) -> None:
    with pytest.raises(InputError, match="set-up lines"):
        ScanOptions(setup=setup)
