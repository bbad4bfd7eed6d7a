"""What is remembered about a lab on this machine, so that everything that was begun can be undone.

    /run/netprobe/labs/NAME/           private to root; everything about one lab
    /run/netprobe/labs/NAME/state.json the intent, written before anything is made
    /run/netprobe/labs/NAME.lock       held while a command makes or removes the lab

An ordinary user's labs have another place, which NETPROBE_LABS names inside their namespaces.

A process is known by its id *and* its start time: ids are used again, and a lab must not end a stranger.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from netprobe.core.errors import InputError, InternalError
from netprobe.lab.spec.fields import NAME_PATTERN

LABS = Path(os.environ.get("NETPROBE_LABS") or "/run/netprobe/labs")
STATE_FILE = "state.json"
LOCK_WAIT_S = 30.0
# Above the descriptors that sshd and the switch close on their way into the background.
_LOCK_DESCRIPTOR_MIN = 100


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of this boot: ``start_ticks`` is field 22 of /proc/PID/stat, clock ticks since boot."""

    pid: int
    start_ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return process(self.pid) == self


class LabState(BaseModel):
    """The content of state.json.

    ``builder`` is the command that makes the lab; ``owner`` the process whose end makes it an orphan, if any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    seed: int
    status: Literal["building", "up", "removing"]
    created_at: datetime
    spec: dict[str, Any]
    sshd: bool
    namespaces: tuple[str, ...]
    builder: Process
    switch: Process | None = None
    daemons: tuple[Process, ...] = ()
    owner: Process | None = None
    made_run_sshd: bool = False

    def save(self, directory: Path) -> None:
        """Replace the state on disk, all or nothing."""
        temporary = directory / f"{STATE_FILE}.new"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(directory / STATE_FILE)

    @classmethod
    def load(cls, directory: Path) -> LabState | None:
        """The state on disk; None when there is none that can be read: nothing was made yet, then."""
        try:
            return cls.model_validate_json((directory / STATE_FILE).read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None


def this_process() -> Process:
    """The process that calls."""
    found = process(os.getpid())
    if found is None:
        raise InternalError("this process is not to be found in /proc")
    return found


def process(pid: int) -> Process | None:
    """The running process of an id, or None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The second field, the command, is in parentheses and may hold anything, spaces and ) included.
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in ("Z", "X"):
        return None
    return Process(pid=pid, start_ticks=int(fields[19]), boot_id=boot_id)


def directory_of(name: str) -> Path:
    """The private directory of a lab."""
    return LABS / name


def lab_names() -> list[str]:
    """The names of all labs on this machine, half-built ones included."""
    try:
        return sorted(
            path.name for path in LABS.iterdir() if NAME_PATTERN.fullmatch(path.name) and path.is_dir()
        )
    except FileNotFoundError:
        return []


def forgotten_locks() -> list[str]:
    """The names with a lock and no lab: what a command leaves that is killed before it has begun."""
    names = {path.stem for path in LABS.glob("*.lock") if NAME_PATTERN.fullmatch(path.stem)}
    return sorted(names.difference(lab_names()))


@contextmanager
def locked(name: str, *, wait_s: float = LOCK_WAIT_S) -> Iterator[int]:
    """Hold the lock of a lab's name; yields its descriptor.

    Commands that build get the descriptor too: a killed netprobe leaves the lock held until the last of
    them has ended, so that the next command does not clean up while another one still creates things.
    Raises InputError when another command holds it for longer than ``wait_s`` seconds.
    """
    path = LABS / f"{name}.lock"
    deadline = time.monotonic() + wait_s
    descriptor = -1
    while descriptor < 0:
        descriptor = _try_lock(path)
        if descriptor < 0:
            if time.monotonic() >= deadline:
                raise InputError(f"lab {name}: another command is at work on it; try again when it has ended")
            time.sleep(0.02)
    try:
        yield descriptor
    finally:
        if not directory_of(name).exists():
            with suppress(FileNotFoundError):
                path.unlink()
            # Fails, as it should, while other labs are there.
            for parent in (LABS, LABS.parent):
                with suppress(OSError):
                    parent.rmdir()
        os.close(descriptor)


def _try_lock(path: Path) -> int:
    try:
        path.parent.parent.mkdir(mode=0o755, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        low = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return -1  # the last lab went, and its directories with it: again
    try:
        descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LOCK_DESCRIPTOR_MIN)
    finally:
        os.close(low)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock on a file that was removed meanwhile protects nothing.
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return -1
