"""Real agents: how they start, what they speak, and that they always end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from netprobe.probe.agent import main, messages
from netprobe.probe.launchers import bootstrap
from netprobe.probe.launchers.bootstrap import READY, STAGE0, agent_archive, new_payload
from tests.probe.conftest import AgentProcess

StartAgent = Callable[..., AgentProcess]
TOKEN = "ab" * 16


def open_port(agent: AgentProcess) -> int:
    agent.send(
        {"type": "open", "id": 1, "token": TOKEN, "address": "127.0.0.1", "ports": [0, 0], "stamps": "kernel"}
    )
    opened = agent.next()
    assert opened["type"] == "opened"
    return int(opened["port"])


def probe(agent: AgentProcess, port: int, count: int) -> None:
    agent.send(
        {
            "type": "probe", "id": 2, "token": TOKEN, "address": "127.0.0.1", "port": port,
            "source": "127.0.0.1", "ssid": 1,
            "count": count, "interval_ns": 1_000_000, "timeout_ns": 10**10, "stamps": "kernel",
        }
    )  # fmt: skip


def old_python() -> str:
    """The oldest Python that agents support, where it runs."""
    candidates = [shutil.which("python3.8"), *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python"))]
    for candidate in candidates:
        if candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip("no Python 3.8 on this machine")


def test_an_agent_probes_itself(start_agent: StartAgent) -> None:
    agent = start_agent()
    assert agent.hello["protocol"] == messages.PROTOCOL
    assert agent.hello["pid"] == agent.child.pid
    probe(agent, open_port(agent), 20)
    kind, body = next(agent.frames)
    assert kind == messages.SAMPLES_FRAME
    task, samples = messages.parse_samples(body)
    done = agent.next()
    assert (task, done["id"], done["type"]) == (2, 2, "done")
    assert (done["sent"], done["received"]) == (20, 20)
    assert done["stamps"] == "kernel" and len(samples) >= 18
    assert all(0 < rtt < 10**10 for _, _, rtt in samples)
    assert [seq for seq, _, _ in samples] == sorted({seq for seq, _, _ in samples})


def test_an_agent_runs_on_the_oldest_python(start_agent: StartAgent) -> None:
    agent = start_agent(python=old_python())
    assert agent.hello["python"].startswith("3.8.")
    probe(agent, open_port(agent), 5)
    next(agent.frames)
    assert agent.next()["received"] == 5


def test_stray_prints_and_noise_do_not_touch_the_protocol(start_agent: StartAgent) -> None:
    noisy = ("sh", "-c", 'echo "Welcome {friend}"; printf "no line break"; exec "$@"', "sh")
    agent = start_agent(prefix=noisy)
    assert agent.noise == b"Welcome {friend}\nno line break" + READY
    of = Path(f"/proc/{agent.child.pid}/fd")
    assert (of / "1").readlink() == (of / "2").readlink()  # what the agent prints goes to standard error
    assert agent.hello["type"] == "hello"


def test_an_agent_leaves_nothing_on_the_disk(start_agent: StartAgent, tmp_path: Path) -> None:
    agent = start_agent(prefix=("env", f"TMPDIR={tmp_path}", f"HOME={tmp_path}"))
    open_port(agent)
    assert list(tmp_path.iterdir()) == []
    files = [str(fd.resolve()) for fd in Path(f"/proc/{agent.child.pid}/fd").iterdir()]
    assert not any("netprobe" in name for name in files if "/memfd:" not in name)


def test_without_an_anonymous_file_a_private_one_is_removed_at_once(
    start_agent: StartAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "LOADER", bootstrap.LOADER.replace("os.memfd_create", "os.no_such_call"))
    agent = start_agent(prefix=("env", f"TMPDIR={tmp_path}"))
    assert agent.hello["type"] == "hello"
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_input_ends_an_agent_in_the_middle_of_a_task(start_agent: StartAgent) -> None:
    agent = start_agent()
    probe(agent, open_port(agent), 100_000)
    assert agent.child.stdin is not None
    agent.child.stdin.close()
    assert agent.child.wait(60) == 0


def test_the_lease_ends_an_agent_whose_controller_falls_silent(start_agent: StartAgent) -> None:
    agent = start_agent(lease_s=1.0)
    probe(agent, open_port(agent), 100_000)
    assert agent.child.wait(60) == -signal.SIGALRM


def test_the_lease_is_renewed_by_every_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with a timer that is written down: an agent that slept through it would be ended."""
    renewed: list[tuple[int, float]] = []
    ended: list[int] = []
    answers, sink = os.pipe()
    served = main.Agent(-1, sink)
    served.lease_s = 7.5
    monkeypatch.setattr(signal, "setitimer", lambda *timer: renewed.append(timer))
    monkeypatch.setattr(os, "_exit", ended.append)
    said = [
        {"type": "ping", "id": 7},
        {"type": "probe", "id": 2},
        {"type": "ping", "id": 8},
        {"type": "quit"},
    ]
    served._read((messages.JSON_FRAME, json.dumps(one).encode()) for one in said)
    assert renewed == [(signal.ITIMER_REAL, 7.5)] * 4 and ended == [0]
    assert served.tasks.get_nowait() == said[1] and served.tasks.empty()
    frames = messages.FrameBuffer().feed(os.read(answers, 1000))
    assert [messages.parse_json(body) for _, body in frames] == [{"type": "pong", "id": i} for i in (7, 8)]
    os.close(answers)
    os.close(sink)


def test_an_agent_answers_an_unknown_task_and_lives(start_agent: StartAgent) -> None:
    agent = start_agent()
    agent.send({"type": "dance", "id": 5})
    answer = agent.next()
    assert (answer["type"], answer["id"], answer["code"]) == ("failed", 5, messages.BAD_REQUEST)
    assert "dance" in answer["reason"]
    agent.send({"type": "probe", "id": 6, "address": "nonsense"})
    assert agent.next()["type"] == "failed"
    assert open_port(agent) > 0


def test_garbage_from_the_controller_ends_an_agent(start_agent: StartAgent) -> None:
    agent = start_agent()
    assert agent.child.stdin is not None and agent.child.stderr is not None
    agent.child.stdin.write(b"\xff" * 10)
    assert agent.child.wait(60) == 1
    assert b"unknown kind" in agent.child.stderr.read()


def test_quit_ends_an_agent(start_agent: StartAgent) -> None:
    agent = start_agent()
    agent.send({"type": "quit"})
    assert agent.child.wait(60) == 0


def test_the_command_is_safe_in_any_shell_and_holds_no_secret() -> None:
    payload = new_payload(lease_s=10)
    command = payload.command("python3")
    assert command == ["python3", "-ISB", "-c", STAGE0]
    assert not re.search(r"['\\$`!\n]", STAGE0)
    assert new_payload(lease_s=10, python="nice -n 5 python3.9").command("x")[:4] == [
        "nice",
        "-n",
        "5",
        "python3.9",
    ]
    assert new_payload(lease_s=10).nonce != payload.nonce


def test_the_archive_is_the_agent_and_always_the_same() -> None:
    first = agent_archive()
    agent_archive.cache_clear()
    assert agent_archive() == first
    names = zipfile.ZipFile(BytesIO(first)).namelist()
    assert "netprobe_agent/main.py" in names and all(name.startswith("netprobe_agent/") for name in names)


def test_bytecode_is_used_where_it_fits_and_the_source_elsewhere(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import netprobe_agent.main as m; "
        "print(m.__cached__ if m.__file__ == m.__cached__ else m.__file__)"
    )
    own, foreign = tmp_path / "own.zip", tmp_path / "foreign.zip"
    own.write_bytes(agent_archive())
    with zipfile.ZipFile(own) as archive, zipfile.ZipFile(foreign, "w") as other:
        for name in archive.namelist():
            data = archive.read(name)
            other.writestr(name, b"\xff\xff" + data[2:] if name.endswith(".pyc") else data)
    for archive_path, ending in ((own, "main.pyc"), (foreign, "main.py")):
        argv = [sys.executable, "-ISB", "-c", code, str(archive_path)]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
        assert said.endswith(f"/netprobe_agent/{ending}"), said


def test_the_agent_loads_no_heavy_module(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import netprobe_agent.main; "
        "print(*sorted({'asyncio', 'typing', 'dataclasses', 'random', 'hmac', 'ssl', 'inspect', 'subprocess'}"
        " & set(sys.modules)))"
    )
    archive = tmp_path / "agent.zip"
    archive.write_bytes(agent_archive())
    said = subprocess.run(
        [sys.executable, "-ISB", "-c", code, str(archive)], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == ""
