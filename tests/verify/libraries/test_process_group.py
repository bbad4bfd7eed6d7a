"""The processes that run a library: what they say, why they end, and that they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.verify.libraries.process_group import MAX_LINE_BYTES, LibraryError, ProcessGroup, parse_message
from tests.probe.conftest import wait_until

CHATTY = """
import sys
print("MOTD \\033[31m", flush=True)
print('netprobe {"up": true}', flush=True)
for line in sys.stdin:
    print("noise", line, 'netprobe {"seconds": "in the middle of a line"}', flush=True)
    print('netprobe {"other": 1}')
    print('netprobe {"seconds": %d}' % len(line), flush=True)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


def test_messages_are_told_from_noise() -> None:
    with ProcessGroup() as group:
        for name in ("a", "b"):
            group.start(name, python(CHATTY))
        long = b"x" * 300_000 + b"\n"
        for i in (0, 1):
            group.send(i, long)
        for i in (1, 0):
            assert group.receive(i, "up", soon()) == {"up": True}
            assert group.receive(i, "seconds", soon()) == {"seconds": len(long)}


@pytest.mark.parametrize(
    ("code", "wait_s", "reason"),
    [
        ("import sys; sys.exit('gloo_allreduce: no address')", 30, "b: .*gloo_allreduce: no address"),
        ("raise SystemExit(3)", 30, "b: it ended early"),
        ("import time; time.sleep(60)", 0.3, "no answer from b in time"),
        ("print('x' * 9_000_000); import time; time.sleep(60)", 1, "no answer from b in time"),
    ],
)
def test_a_process_that_gives_no_answer_is_named_with_the_reason(
    code: str, wait_s: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wait_s < 30:  # nor will it end by itself
        monkeypatch.setattr("netprobe.verify.libraries.process_group.LAST_WORDS_S", 0.05)
    with ProcessGroup() as group, pytest.raises(LibraryError, match=reason) as raised:
        group.start("a", python(CHATTY))
        group.start("b", python(code))
        assert group.receive(0, "up", soon())
        group.receive(1, "up", soon(wait_s))
    assert raised.value.exit_code == 4
    assert "\x1b" not in str(raised.value) and "\n" not in str(raised.value)


def test_names_that_mpiruns_ssh_cannot_resolve_have_the_option_that_helps() -> None:
    line = "ssh: Could not resolve hostname h-xcbm: Name or service not known"
    with ProcessGroup() as group:
        group.start("mpirun", [sys.executable, "-c", f"import sys; sys.exit({line!r})"])
        with pytest.raises(
            LibraryError, match="mpirun: its ssh cannot resolve h-xcbm: .*plm_rsh_agent=COMMAND"
        ):
            group.receive(0, "ranks", time.monotonic() + 30)


def test_a_program_that_is_not_there_is_said() -> None:
    with ProcessGroup() as group, pytest.raises(LibraryError, match="cannot run 'no-such-program'"):
        group.start("a", ["no-such-program"])


def test_whoever_will_not_end_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netprobe.verify.libraries.process_group.LAST_WORDS_S", 0.05)
    monkeypatch.setattr("netprobe.verify.libraries.process_group.TERM_S", 0.05)
    code = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print('netprobe {{"up": true}}', flush=True)
time.sleep(600)
"""
    with ProcessGroup() as group:
        group.start("a", python(code))
        group.receive(0, "up", soon())
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert wait_until(partial(is_gone, pid), 30)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return state.startswith("Z") or not state


def test_the_output_of_a_process_that_ends_is_collected() -> None:
    with ProcessGroup() as group:
        group.start("a", python("print('one'); print('two')"))
        assert group.collect(0, soon()) == ["one", "two"]
    with ProcessGroup() as group, pytest.raises(LibraryError, match="a: .*no GPU"):
        group.start("a", python("import sys; sys.exit('no GPU')"))
        group.collect(0, soon())
    with ProcessGroup() as group, pytest.raises(LibraryError, match="a has not ended in time"):
        group.start("a", python(f"import signal, time; time.sleep({signal.SIGALRM * 10})"))
        group.collect(0, soon(0.1))


@given(
    st.binary(max_size=200) | st.text(max_size=60).map(lambda t: b"netprobe " + t.encode("utf-8", "replace"))
)
def test_any_line_is_a_message_or_none(line: bytes) -> None:
    found = parse_message(line)
    assert found is None or line.startswith(b"netprobe {")


def test_lines_that_would_break_a_reader_are_none() -> None:
    for line in (
        b"[" * 100_000,
        b'{"a": ' * 50_000,
        b"{}" + b" " * MAX_LINE_BYTES,
        b"1" * 9999,
        b"NaN",
        b"[1]",
    ):
        assert parse_message(b"netprobe " + line) is None
