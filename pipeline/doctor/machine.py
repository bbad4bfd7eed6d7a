"""What this machine offers netprobe: each check says what it found and what it is good for."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from netprobe._version import __version__
from netprobe.core.system.install import install_command, package_command, place, wrong_installs

State = Literal["ok", "missing", "limited"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One finding. ``needed_for`` says what goes without it; ``remedy`` what to do."""

    name: str
    state: State
    found: str
    needed_for: str
    remedy: str = ""


def doctor() -> list[Check]:
    """Run every check. None of them changes anything on the machine."""
    return list(_checks())


def _checks() -> Iterator[Check]:
    yield _python()
    yield _install()
    for program, arguments, what, package in (
        ("ssh", ("-V",), "probing over ssh (the default)", "openssh-client"),
        ("iperf3", ("--version",), "goodput probes", "iperf3"),
        ("fping", ("--version",), "latency by fping (--latency fping)", "fping"),
        ("mpirun", ("--version",), "running jobs with the exported hostfile", "openmpi-bin"),
        ("ip", ("-V",), "the lab", "iproute2"),
    ):
        yield _program(program, arguments, what, package)
    yield _compiler()
    for module, what, remedy in (
        ("torch", "fits on torch or a GPU, when used as a library", install_command("map")),
        # Not the extra: [map] would bring torch's gigabytes for it.
        ("sklearn", "the constrained k-means as an estimator", package_command("scikit-learn")),
        ("scapy", "latency by ICMP (--latency icmp), and --trace scapy", install_command("icmp")),
    ):
        yield _module(module, what, remedy)
    yield _stamps()
    yield _namespaces()


def _python() -> Check:
    return Check(
        name="python",
        state="ok",
        found=f"{platform.python_version()} at {sys.executable}",
        needed_for="netprobe itself (3.10 or later; 3.8 or later on the probed hosts)",
    )


def _install() -> Check:
    wrong = wrong_installs()
    return Check(
        name="install",
        state="limited" if wrong else "ok",
        found="; ".join(one.found for one in wrong) or f"netprobe {__version__} in {place()}, and no other",
        needed_for="being sure which code runs",
        remedy="; ".join(one.remedy for one in wrong),
    )


def _program(program: str, arguments: tuple[str, ...], what: str, package: str) -> Check:
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        return Check(
            name=program, state="missing", found="not found", needed_for=what, remedy=f"install {package}"
        )
    return Check(name=program, state="ok", found=_first_line([path, *arguments]) or path, needed_for=what)


def _compiler() -> Check:
    path = shutil.which("cc") or shutil.which("gcc")
    what = "the lab's switch (compiled at lab up), and the messages of plans in training jobs"
    if path is None:
        return Check(
            name="compiler",
            state="missing",
            found="no cc or gcc",
            needed_for=what,
            remedy="install gcc and libc6-dev",
        )
    return Check(name="compiler", state="ok", found=_first_line([path, "--version"]) or path, needed_for=what)


def _module(module: str, what: str, remedy: str) -> Check:
    if importlib.util.find_spec(module) is None:
        return Check(name=module, state="missing", found="not installed", needed_for=what, remedy=remedy)
    return Check(name=module, state="ok", found=f"version {_version(module)}", needed_for=what)


def _version(module: str) -> str:
    from importlib import metadata

    try:
        return metadata.version({"sklearn": "scikit-learn"}.get(module, module))
    except metadata.PackageNotFoundError:
        return "unknown"


def _stamps() -> Check:
    """Two agents on loopback say which stamps this kernel gives."""
    from netprobe.core.errors import NetprobeError
    from netprobe.core.hosts import make_host
    from netprobe.probe.launchers.via import parse_via
    from netprobe.probe.records.options import ScanOptions
    from netprobe.probe.scan.session import run_scan

    what = "latency readings within microseconds"
    options = ScanOptions(probes_per_visit=10, timeout_s=0.2, start_timeout_s=10)
    try:
        scan = run_scan([make_host("a"), make_host("b")], parse_via("local"), options).scan
    except NetprobeError as error:
        return Check(name="time stamps", state="missing", found=str(error), needed_for=what)
    levels = sorted({text or "none" for text in scan.visits.text("stamps")})
    if levels == ["kernel"]:
        found = "kernel stamps on sending and receipt (tried on loopback)"
        return Check(name="time stamps", state="ok", found=found, needed_for=what)
    return Check(
        name="time stamps",
        state="limited",
        found=f"{' and '.join(levels)} (tried on loopback)",
        needed_for=what,
        remedy="readings will hold scheduling delays; the scan records the level of each visit",
    )


def _namespaces() -> Check:
    what = "the lab (netprobe lab, scan --lab)"
    if not sys.platform.startswith("linux"):
        return Check(
            name="namespaces",
            state="missing",
            found=f"{sys.platform} has none",
            needed_for=what,
            remedy="use Linux",
        )
    unshare = shutil.which("unshare")
    if os.geteuid() != 0:
        own = unshare is not None and _succeeds([unshare, "-Urnmp", "--fork", "--mount-proc", "true"])
        return Check(
            name="namespaces",
            state="limited",
            found="those of an ordinary user work, root's do not: this is not root"
            if own
            else f"the kernel lets user {os.geteuid()} make none",
            needed_for=what,
            remedy=f"run the lab as root (sudo){' for exact delays and sshd' if own else ''}",
        )
    works = unshare is not None and _succeeds([unshare, "--net", "--uts", "true"])
    return Check(
        name="namespaces",
        state="ok" if works else "missing",
        found="root, network and host name namespaces work" if works else "refused by the kernel",
        needed_for=what,
        remedy="" if works else "needs CAP_SYS_ADMIN; inside a container run it privileged",
    )


def _succeeds(argv: list[str]) -> bool:
    done = _run(argv)
    return done is not None and done.returncode == 0


def _first_line(argv: list[str]) -> str | None:
    done = _run(argv)
    return None if done is None else next(iter((done.stdout or done.stderr).splitlines()), None)


def _run(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=10, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
