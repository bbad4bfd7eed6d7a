"""Making and removing labs, and what is left when something goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netprobe.cli.entry import run
from netprobe.core.errors import InputError, OutputExistsError, PlatformError
from netprobe.lab import Lab, down, down_all, find, list_labs, load_spec, orphans, parse_spec, temporary, up
from netprobe.lab.state import LABS, directory_of, lab_names

NAME = f"t{os.getpid()}"
PAIR = parse_spec("racks: [2]")


def _left() -> list[str]:
    """What there is of labs of these tests: other labs may run on this machine meanwhile."""
    found = [str(path) for path in (*LABS.glob(f"{NAME}*"), *Path("/run/netns").glob(f"{NAME}*"))]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    found += [line for line in mounts if NAME in line]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if f"/{NAME}".encode() in command:
            found.append(f"{path.parent.name}: {command!r}")
    return found


@pytest.fixture
def left_nothing() -> Iterator[None]:
    links = set(Path("/sys/class/net").iterdir())
    yield
    try:
        assert not _left()
        assert set(Path("/sys/class/net").iterdir()) == links
    finally:
        for name in lab_names():
            if name.startswith(NAME):
                down(name)


def _python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.001)


def _delete_directory(lab: Lab) -> None:
    for path in lab.directory.glob("hostnames/*"):
        subprocess.run(["umount", str(path)], check=True)
    shutil.rmtree(lab.directory)


def _spoil_spec(lab: Lab) -> None:
    path = lab.directory / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(state | {"spec": {"racks": "none"}}), encoding="utf-8")


def _stopped_at(moment: Callable[[], object], what: str, number: signal.Signals) -> None:
    """An ``up`` that got this signal while it was at work: on a busy machine it may end before it gets it."""
    for _ in range(20):
        running = _python(UP)
        _wait_for(lambda up=running: moment() or up.poll() is not None, what)  # type: ignore[misc]
        running.send_signal(number)
        if running.wait(100) != 0 and NAME not in [lab.name for lab in list_labs() if lab.status == "up"]:
            return
        down(NAME)
    raise AssertionError(f"every up was done before its {what} was seen")


UP = f"from netprobe.lab import *; up(load_spec('racks-3-6-9'), seed=1, name='{NAME}')"


@pytest.mark.lab
@pytest.mark.usefixtures("left_nothing")
class TestRealLabs:
    def test_up_and_down_leave_nothing(self) -> None:
        lab = up(load_spec("racks-6-6-4"), seed=1, name=NAME)
        assert (lab.status, len(lab.hosts), lab.seed) == ("up", 16, 1)
        assert find(NAME) == lab
        assert lab in list_labs()
        assert lab.truth().lab == NAME
        assert len(lab.hosts_path.read_text(encoding="ascii").splitlines()) == 17
        for namespace in lab.layout.namespaces:
            assert Path("/run/netns", namespace).exists()
        down(NAME)
        with pytest.raises(InputError, match=NAME):
            down(NAME)

    def test_a_process_in_the_lab_ends_with_it_and_others_do_not(self) -> None:
        lab = up(PAIR, name=NAME)
        argv = ["sleep", "1000"]
        inside = subprocess.Popen(lab.exec_argv(lab.hosts[0].name, argv))
        outside = subprocess.Popen(argv)
        try:
            _wait_for(lambda: b"sleep" in Path(f"/proc/{inside.pid}/cmdline").read_bytes()[:6], "sleep")
            down(NAME)
            assert inside.wait(60) == -signal.SIGKILL
            assert outside.poll() is None
        finally:
            outside.kill()
            outside.wait()

    def test_two_labs_of_one_spec_stand_side_by_side(self) -> None:
        names = (f"{NAME}-a", f"{NAME}-b")
        labs = [up(PAIR, seed=1, name=name) for name in names]
        assert labs[0].hosts[1].address == labs[1].hosts[1].address
        for lab in labs:
            argv = lab.exec_argv(lab.hosts[0].name, ["sh", "-c", f"ip route get {lab.hosts[1].address}"])
            assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
            lab.stats()
        down(names[0])
        labs[1].stats()
        down(names[1])

    def test_a_lab_that_runs_is_not_replaced_but_a_broken_one_is(self) -> None:
        lab = up(PAIR, name=NAME)
        with pytest.raises(OutputExistsError, match="up already"):
            up(PAIR, name=NAME)
        assert find(NAME) == lab
        os.kill(int((lab.directory / "switch.pid").read_text(encoding="ascii")), signal.SIGTERM)
        _wait_for(lambda: find(NAME).status == "broken", "the switch's end")
        assert up(PAIR, name=NAME).status == "up"
        down(NAME)

    @pytest.mark.parametrize(
        ("moment", "cleaner"),
        [
            ("start", "down"),
            ("intent", "up"),
            ("namespaces", "up"),
            ("namespaces", "down"),
            ("hostnames", "down"),
            ("switch", "up"),
            ("end", "down"),
        ],
    )
    def test_what_a_killed_up_leaves_is_removed_by_the_next_command(self, moment: str, cleaner: str) -> None:
        directory = directory_of(NAME)
        moments: dict[str, Callable[[], object]] = {
            "start": lambda: (LABS / f"{NAME}.lock").exists(),
            "intent": lambda: (directory / "state.json").exists(),
            "namespaces": lambda: Path(f"/run/netns/{NAME}.fabric").exists(),
            "hostnames": lambda: any(directory.glob("hostnames/*")),
            "switch": lambda: (directory / "switch.pid").exists(),
            "end": lambda: (directory / "rsh-agent").exists(),
        }
        _stopped_at(moments[moment], moment, signal.SIGKILL)
        if cleaner == "up":
            with temporary(PAIR, name=f"{NAME}-x"):
                pass
            assert NAME not in lab_names()
        else:
            try:
                down(NAME)
            except InputError:
                assert moment == "start"

    def test_an_interrupted_up_leaves_nothing_by_itself(self) -> None:
        _stopped_at(Path(f"/run/netns/{NAME}.fabric").exists, "namespace", signal.SIGINT)
        assert NAME not in lab_names()

    def test_a_temporary_lab_of_a_killed_process_is_removed_by_the_next_command(self) -> None:
        code = f"with temporary(load_spec('pair'), name='{NAME}'): time.sleep(99)"
        killed = _python(f"import time\nfrom netprobe.lab import *\n{code}")
        _wait_for(lambda: NAME in [lab.name for lab in list_labs() if lab.status == "up"], "the lab")
        with temporary(PAIR, name=f"{NAME}-y"):
            assert find(NAME).status == "up"
        killed.kill()
        killed.wait()
        with temporary(PAIR, name=f"{NAME}-y"):
            assert NAME not in lab_names()

    def test_a_temporary_lab_goes_whatever_happens_in_it(self) -> None:
        with pytest.raises(KeyError), temporary(load_spec("single")) as lab:
            raise KeyError(lab.name)
        assert lab.name not in lab_names()

    def test_of_two_commands_that_make_one_lab_one_wins(self) -> None:
        both = [_python(UP), _python(UP)]
        assert sorted(one.wait(100) for one in both) == [0, 1]
        assert find(NAME).status == "up"
        down(NAME)

    def test_down_refuses_to_work_from_inside(self) -> None:
        lab = up(PAIR, name=NAME)
        code = f"from netprobe.lab import *; down('{NAME}')"
        argv = lab.exec_argv(None, [sys.executable, "-c", code])
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
        assert "run it outside" in done.stderr
        down(NAME)

    def test_a_strangers_namespace_is_not_touched(self) -> None:
        target = f"{NAME}.controller"
        subprocess.run(["ip", "netns", "add", target], check=True)
        try:
            with pytest.raises(OutputExistsError, match=target):
                up(PAIR, name=NAME)
            assert Path("/run/netns", target).exists()
        finally:
            subprocess.run(["ip", "netns", "del", target], check=True)

    def test_an_interrupted_down_is_finished_by_the_next_command(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*args: object, **kwargs: object) -> None:
            raise KeyboardInterrupt

        lab = up(PAIR, name=NAME)
        with monkeypatch.context() as patch:
            patch.setattr("netprobe.lab.running.build.remove_namespaces", interrupt)
            with pytest.raises(KeyboardInterrupt):
                down(NAME)
        assert find(NAME).status == "broken"
        assert Path("/run/netns", lab.layout.fabric_target).exists()
        with temporary(PAIR, name=f"{NAME}-x"):
            assert NAME not in lab_names()

    def test_the_state_of_another_version_is_left_alone_until_down(self) -> None:
        with temporary(PAIR, name=f"{NAME}-x"):
            directory_of(NAME).mkdir()
            (directory_of(NAME) / "state.json").write_text('{"schema_version": 2}', encoding="ascii")
            with temporary(PAIR, name=f"{NAME}-y"):
                assert NAME in lab_names()
            with pytest.raises(InputError, match="take it down"):
                find(NAME)
            down(NAME)

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda lab: (lab.directory / "state.json").write_text("{", encoding="ascii"), "damaged"),
            (lambda lab: (lab.directory / "state.json").unlink(), "state.json was deleted"),
            (_spoil_spec, "no possible lab"),
            (_delete_directory, "its directory was deleted"),
        ],
    )
    def test_a_damaged_lab_is_listed_with_its_reason_and_removed_whole(
        self, damage: Callable[[Lab], object], reason: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lab = up(PAIR, name=NAME)
        command = ["sh", "-c", "echo in; exec sleep 1000"]
        inside = subprocess.Popen(lab.exec_argv(lab.hosts[0].name, command), stdout=subprocess.PIPE)
        assert inside.stdout is not None and inside.stdout.readline() == b"in\n"  # or it would find no lab
        damage(lab)
        assert [one.reason for one in orphans() if one.name == NAME and reason in one.reason]
        assert NAME not in [one.name for one in list_labs()]
        assert run(["lab", "list"]) == 0
        assert f"netprobe lab down {NAME}" in capsys.readouterr().out
        with pytest.raises(InputError, match=reason):
            find(NAME)
        if "directory" in reason:
            with pytest.raises(OutputExistsError, match=f"lab down {NAME}"):
                up(PAIR, name=NAME)
        down(NAME)
        assert inside.wait(60) == -signal.SIGKILL
        assert NAME not in [one.name for one in orphans()]

    def test_a_lab_whose_hosts_were_deleted_by_hand_is_broken_and_removed_whole(self) -> None:
        lab = up(PAIR, name=NAME)
        inside = subprocess.Popen(lab.exec_argv(lab.hosts[0].name, ["sleep", "1000"]))
        _wait_for(lambda: b"sleep" in Path(f"/proc/{inside.pid}/cmdline").read_bytes()[:6], "sleep")
        for name in lab.layout.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=True)
        assert find(NAME).status == "broken"
        down(NAME)
        assert inside.wait(60) == -signal.SIGKILL

    def test_a_switch_that_is_all_that_is_left_is_found(self) -> None:
        lab = up(PAIR, name=NAME)
        _delete_directory(lab)
        for name in lab.layout.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=True)
        assert NAME in [one.name for one in orphans()]
        down(NAME)
        assert NAME not in [one.name for one in orphans()]


@pytest.mark.lab
def test_many_hosts_can_be_made() -> None:
    with temporary(parse_spec("racks: [140, 140]")) as lab:
        for host in (lab.hosts[0], lab.hosts[-1]):
            argv = lab.exec_argv(None, ["ping", "-c1", "-W30", host.address])
            assert subprocess.run(argv, capture_output=True, check=False, timeout=60).returncode == 0


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    calls: list[Callable[[], object]] = [
        lambda: up(PAIR),
        lambda: down("x"),
        down_all,
        list_labs,
        lambda: find("x"),
    ]
    for call in calls:
        with pytest.raises(PlatformError, match=r"needs root.*sudo"):
            call()


@pytest.mark.lab
def test_without_a_compiler_or_ip_it_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which

    def without(*names: str) -> None:
        monkeypatch.setattr(
            shutil, "which", lambda name, path=None: None if name in names else real(name, path=path)
        )

    without("cc", "gcc", "clang")
    with pytest.raises(PlatformError, match="apt-get install gcc"):
        up(PAIR, name=NAME)
    without("ip")
    with pytest.raises(PlatformError, match="iproute2"):
        up(PAIR, name=NAME)
    without("sshd")
    with pytest.raises(PlatformError, match="openssh-server"):
        up(PAIR, name=NAME, sshd=True)
    assert NAME not in lab_names()


@pytest.mark.parametrize("name", ["", "../x", "A", "-x", "a.b", "x" * 25, "a/b", "a;b"])
def test_a_name_that_is_none_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InputError, match="is not a valid lab name"):
        up(PAIR, name=name)


def test_an_unknown_lab_is_refused_with_the_labs_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("netprobe.lab.running.fleet.lab_names", list)
    with pytest.raises(InputError, match="there is none on this machine"):
        find("x")
    monkeypatch.setattr("netprobe.lab.running.fleet.lab_names", lambda: ["alpha", "beta"])
    with pytest.raises(InputError, match="there are alpha, beta"):
        find("../../etc")
