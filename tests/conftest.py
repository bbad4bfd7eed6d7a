"""Fixtures every folder of tests may use."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.properties import LONG

# A shared machine stalls at times: neither a slow example nor slow drawing is a failure. Every day the same examples,
# so that a failure comes from a change and not from luck; in `make test-long` other ones each time, of the seed that
# it prints.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("everyday", patient, max_examples=60, derandomize=True)
settings.register_profile("long", patient, max_examples=600, derandomize=False)
settings.load_profile("long" if LONG else "everyday")

# Commands that tests start find netprobe compiled, as a user's second command does: without that each of some
# hundred compiles all of it again, which takes longer than what most of them do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts its background jobs, and execnet its workers, with SIGINT ignored, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real matrices, logs and files that NETPROBE_DATA names; skips where it is unset."""
    folder = os.environ.get("NETPROBE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("NETPROBE_DATA names no folder of real data")
    return Path(folder)


def lab_is_missing() -> str | None:
    """Why this machine can hold no lab; None when it can."""
    if sys.platform != "linux":
        return "a lab needs Linux"
    if os.geteuid() != 0:
        return "exact labs need root"
    for program in ("ip", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"a lab needs {program}"
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        return "a lab needs a C compiler"
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return None if made.returncode == 0 else "network namespaces cannot be made here"


@pytest.fixture(scope="session")
def compiled_switch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's switch, compiled once, with every warning an error."""
    from netprobe.lab.switch.control import COMPILE_FLAGS, SOURCES

    path = tmp_path_factory.mktemp("switch") / "switch"
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    subprocess.run([compiler, *COMPILE_FLAGS, "-Werror", "-o", str(path), *map(str, SOURCES)], check=True)
    return path


def remember_compiling(folder: Path, compiled: Path) -> Path:
    """A folder for the front of PATH whose ``cc`` has compiled the switch before, as compiler caches do.

    It holds all that it needs, for users who may read nothing else. Anything else it leaves to the real one.
    """
    from netprobe.lab.switch.control import COMPILE_FLAGS, SOURCES, find_compiler

    folder.mkdir()
    shutil.copy(compiled, folder / "switch")
    same = shlex.join([*COMPILE_FLAGS, "-o"])
    (folder / "cc").write_text(
        "#!/bin/sh\n"
        f'if [ "$#" = {len(COMPILE_FLAGS) + 2 + len(SOURCES)} ]; then\n'
        f"    case $* in {shlex.quote(same + ' ')}*{shlex.quote(' ' + shlex.join(map(str, SOURCES)))})\n"
        f'        shift {len(COMPILE_FLAGS) + 1}; exec cp "${{0%/*}}/switch" "$1";; esac\nfi\n'
        f'exec {shlex.quote(find_compiler())} "$@"\n'
    )
    (folder / "cc").chmod(0o755)
    return folder


@pytest.fixture(scope="session", autouse=True)
def no_compiling(request: pytest.FixtureRequest) -> Iterator[None]:
    """Labs of this process share one switch, for half of the time of making a lab is the compiler's.

    So do labs of other processes (netprobe scan --lab, netprobe lab up) that are given ``remember_compiling``;
    others compile it as users' labs do.
    """
    if not any(item.get_closest_marker("lab") for item in request.session.items) or lab_is_missing():
        yield
        return

    switch = request.getfixturevalue("compiled_switch")  # here: a lab asks for it in a thread

    def copy(directory: Path, *, lock: int) -> Path:
        return Path(shutil.copy(switch, directory / "switch"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netprobe.lab.running.build.compile_switch", copy)
        yield


@pytest.fixture(scope="session")
def compiler_cache(compiled_switch: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH for commands that make labs and need not show that they can compile."""
    folder = remember_compiling(tmp_path_factory.mktemp("compiler") / "bin", compiled_switch)
    return f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Callable[[int], Iterator[int]]:
    """Numbers of attempts, for what a busy machine may spoil; each after the first is a retry in the summary."""

    def numbers(most: int) -> Iterator[int]:
        yield 0
        for number in range(1, most):
            request.node.user_properties.append(("retry", number))  # reaches the summary from workers too
            yield number

    return numbers


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    retried = {
        report.nodeid: count
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown" or getattr(report, "outcome", None) == "failed"
        if (count := sum(name == "retry" for name, _ in getattr(report, "user_properties", ())))
    }
    names = "".join(f"\n  {count} in {name}" for name, count in retried.items())
    terminalreporter.write_line(f"retries: {sum(retried.values())}{names}")
    if path := os.environ.get("NETPROBE_TEST_TIMES"):  # for scripts/test_times.py
        every = [report for reports in terminalreporter.stats.values() for report in reports]
        timed = [one for one in every if getattr(one, "when", None) and hasattr(one, "duration")]
        Path(path).write_text("".join(f"{one.duration:.4f}\t{one.nodeid}\n" for one in timed))


# After the selection by -m and -k: a run without labs must not wait for one that has them.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not LONG:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    marked = [item for item in items if item.get_closest_marker("lab")]
    reason = lab_is_missing() if marked else None
    if reason is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
    elif marked and not config.option.collectonly:
        if hasattr(config, "workerinput"):
            raise pytest.UsageError("lab tests run one at a time: add -m 'not lab', or leave out -n")
        # Labs share the machine's cores and its real-time priorities: one run of the tests at a time. The
        # lock goes with this process.
        lock = os.open("/run/netprobe-tests.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
