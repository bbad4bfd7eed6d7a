"""Labs of an ordinary user: groups are right, nothing outlives a command, and what is refused is said.

Run by root they give root up first; run by anybody else they are that user's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from netprobe.cluster import find_groups
from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.core.documents.document import load_document
from netprobe.core.documents.scan import Scan
from netprobe.lab import load_truth
from tests.conftest import remember_compiling

# Labs of root's tests use the same cores, and take the same lock.
pytestmark: list[pytest.MarkDecorator] = [pytest.mark.lab] if os.geteuid() == 0 else []

_NOBODY = 65534
_AS_USER = (
    ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
)
_MARK = f"NETPROBE_TEST_{uuid.uuid4().hex}"
_PATHS = os.pathsep.join([str(Path(__file__).parents[3]), *(path for path in sys.path if path)])


class User:
    """An ordinary user with a directory of their own, who runs netprobe."""

    def __init__(self, python: str, folder: Path, cache: Path) -> None:
        self.folder = folder
        self._python = python
        self._cache = str(cache)
        """For labs that need not show that such a user's lab compiles its switch."""
        self._env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": _PATHS,
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_RUNTIME_DIR": str(folder),
            "HOME": str(folder),
            _MARK: "1",
        }

    def start(self, *args: str, compiles: bool = False) -> subprocess.Popen[str]:
        path = self._env["PATH"] if compiles else self._cache + os.pathsep + self._env["PATH"]
        return subprocess.Popen(
            [*_AS_USER, self._python, "-m", "netprobe", *args],
            env=self._env | {"PATH": path},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, compiles: bool = False) -> tuple[int, str, str]:
        running = self.start(*args, compiles=compiles)
        try:
            out, err = running.communicate(timeout=150)
        finally:
            running.kill()
        return running.returncode, out, err


def _python() -> str:
    """An interpreter that an ordinary user can run, in namespaces too; skips where there is none."""
    enter = [*_AS_USER, "unshare", "-Urnmp", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or (_AS_USER and shutil.which("setpriv") is None):
        pytest.skip("unshare and setpriv (util-linux) are needed to try labs without root")
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine refuses an ordinary user's namespaces")
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run(
            [*enter, python, "-c", "import netprobe.lab, typer, sys; print(sys.version_info[:2])"],
            env={"PYTHONPATH": _PATHS, "PATH": os.environ.get("PATH", os.defpath)},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and done.stdout.strip() == str(sys.version_info[:2]):
            return python
    pytest.skip("there is no Python here that an ordinary user can run netprobe with")


@pytest.fixture(scope="module")
def user(compiled_switch: Path) -> Iterator[User]:
    python = _python()
    folder = Path(tempfile.mkdtemp(prefix="netprobe-user-"))
    cache = remember_compiling(folder / "compiler", compiled_switch)
    if _AS_USER:
        os.chown(folder, _NOBODY, _NOBODY)
    try:
        yield User(python, folder, cache)
        assert not _alive()
    finally:
        for pid in _alive():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _alive() -> list[int]:
    """Every process that a command of these tests has started, however far down."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if _MARK.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return sorted(found)


def _wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def test_a_scan_of_a_lab_finds_the_racks(user: User) -> None:
    # Without real-time priority the switch is late by milliseconds while the cores are busy: racks further apart.
    spec, out = user.folder / "spec.yaml", user.folder / "out"
    spec.write_text("{name: user, racks: [4, 3], delay_inside: 100us, delay_between: 20ms}\n")
    args = ("scan", "--lab", str(spec), "--seed", "7", "--out", str(out), "--only", "scan", "--json")
    code, text, err = user.run(*args, "--probes", "30", compiles=True)
    assert code == 0, err
    assert json.loads(text)["status"] == "ok"
    scan, truth = load_document(Scan, out / "scan.json"), load_truth(out / "truth.json")
    found = np.nan_to_num(scan.rtt_s.min)
    labels = find_groups((found + found.T) / 2, found, seed=0)[0].labels
    rack_of = {name: group.id for group in truth.groups for name in group.hosts}
    assert adjusted_rand_index([rack_of[host.name] for host in scan.hosts], labels.tolist()) == 1.0
    assert (out / "scan.json").stat().st_uid == user.folder.stat().st_uid
    assert not _alive()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_scan_that_is_ended_leaves_no_process(user: User, number: signal.Signals) -> None:
    before = set(Path("/run/netns").glob("*"))
    # At half a second a probe there is time to be ended in.
    args = ("--interval", "0.5", "--out", str(user.folder / f"ended-{number}"))
    running = user.start("scan", "--lab", "racks-4x4", *args)
    # This command, its child, the switch, and some agents.
    _wait_for(lambda: len(_alive()) > 6 or running.poll() is not None, "agents")
    assert running.poll() is None
    running.send_signal(number)
    _, err = running.communicate(timeout=100)
    assert running.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130), err
    _wait_for(lambda: not _alive(), "the end of every process")
    assert set(Path("/run/netns").glob("*")) <= before


def test_labs_stand_between_commands_and_the_last_takes_its_holder_along(user: User) -> None:
    code, text, err = user.run("lab", "up", "pair", "--json")
    assert code == 0, err
    made = json.loads(text)
    assert Path(made["hosts_file"]).read_text(encoding="ascii").count("\n") == 3
    assert Path(made["directory"]).parent == user.folder / "netprobe" / "labs"
    there = made["hosts"][1]["address"]
    assert user.run("lab", "exec", "pair", "--", "sh", "-c", f"ping -c1 -W30 {there} && exit 7")[0] == 7
    assert user.run("lab", "set", "pair", made["hosts"][1]["name"], "down=true")[0] == 0
    assert user.run("lab", "exec", "pair", "--", "ping", "-c1", "-W1", there)[0] == 1
    code, _, err = user.run("lab", "up", "pair", "--name", "second", "--sshd")
    assert (code, "needs root" in err) == (2, True)
    assert user.run("lab", "up", "single")[0] == 0
    assert [lab["name"] for lab in json.loads(user.run("lab", "list", "--json")[1])["labs"]] == [
        "pair",
        "single",
    ]
    assert user.run("lab", "down", "pair")[0] == 0
    assert _alive()
    assert user.run("lab", "down", "single")[0] == 0
    _wait_for(lambda: not _alive(), "the holder's end")
    code, _, err = user.run("lab", "exec", "pair", "--", "true")
    assert (code, "you have no lab 'pair'" in err) == (2, True)


def test_labs_whose_holder_was_killed_are_gone_and_forgotten(user: User) -> None:
    assert user.run("lab", "up", "single")[0] == 0
    holder = json.loads((user.folder / "netprobe" / "holder.json").read_text(encoding="ascii"))["pid"]
    os.kill(holder, signal.SIGKILL)
    _wait_for(lambda: not _alive(), "the end of every process")
    code, text, _ = user.run("lab", "list", "--json")
    assert (code, json.loads(text)) == (0, {"labs": [], "remains": []})
    assert not (user.folder / "netprobe" / "labs").exists()
    assert user.run("lab", "up", "single")[0] == 0
    assert user.run("lab", "down", "--all")[0] == 0
    _wait_for(lambda: not _alive(), "the holder's end")


def test_a_directory_of_somebody_else_is_not_trusted(user: User) -> None:
    place = user.folder / "netprobe"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o755)
    try:
        code, _, err = user.run("lab", "list")
        assert (code, "not a directory of yours alone" in err) == (2, True)
    finally:
        place.rmdir()
