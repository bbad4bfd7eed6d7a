"""Labs of an ordinary user: the command continues in a child, inside namespaces of the user's own.

A temporary lab has namespaces that end with its command. The labs of ``lab up`` share one set for each
user, kept by a holder process: the first ``up`` starts it, and the ``down`` of the last lab ends it.

    $XDG_RUNTIME_DIR/netprobe/            (or /tmp/netprobe-UID/) private to the user
        holder.json                       the holder: process id and start
        holder.lock                       held to start or end it
        users.lock                        held shared by every command at work inside
        labs/                             what /run/netprobe/labs is for root
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from netprobe.core.errors import NetprobeError, PlatformError
from netprobe.core.system import namespaces

NOTE = "without root: no real-time priority, so round trips are less exact, and no sshd; sudo gives both"
_LABS_VARIABLE = "NETPROBE_LABS"
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SI_USER_MAX = 0  # si_code of a signal that a process sent; the terminal's are above


def is_needed() -> bool:
    """Whether this command is an ordinary user's."""
    return os.geteuid() != 0


def enter_own() -> None:
    """Continue in namespaces that end with this command. Returns in the child; the parent waits and exits.

    Raises PlatformError when the machine refuses.
    """
    os.environ.pop(_LABS_VARIABLE, None)
    namespaces.leave_for_new()
    _go_on_in_child(namespaces.furnish, lambda: None)


def enter_shared(*, start: bool) -> bool:
    """Continue in the namespaces of the user's labs; False when there are none, and ``start`` makes them.

    Returns in the child; the parent waits and exits. Raises PlatformError when the machine refuses.
    """
    folder = _folder()
    starting, using = (_open_lock(folder / name) for name in ("holder.lock", "users.lock"))
    fcntl.flock(starting, fcntl.LOCK_EX)
    holder = _holder(folder)
    if holder is None:
        # Its labs leave only files: the rest ended with it.
        shutil.rmtree(folder / "labs", ignore_errors=True)
        if not start:
            os.close(starting)
            return False
        holder = _start_holder(folder)
    fcntl.flock(using, fcntl.LOCK_SH)
    fcntl.flock(starting, fcntl.LOCK_UN)
    os.environ[_LABS_VARIABLE] = str(folder / "labs")
    handle = os.pidfd_open(holder)
    namespaces.leave_for(holder)

    def finish() -> None:
        with suppress(OSError):
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(using, fcntl.LOCK_UN)
            # Refused while another command is at work: that one comes by here too.
            fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not any(path.is_dir() for path in folder.glob("labs/*")):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                shutil.rmtree(folder / "labs", ignore_errors=True)
                (folder / "holder.json").unlink()

    _go_on_in_child(lambda: None, finish)
    return True


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _go_on_in_child(first: Callable[[], None], finish: Callable[[], None]) -> None:
    """Fork. The child does ``first`` and returns; the parent hands on signals, waits, finishes and exits."""
    sys.stdout.flush()
    sys.stderr.flush()
    alive_end, parent_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    # Blocked before the fork: none is lost between it and the wait.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        os.close(parent_end)
        namespaces.die_with_parent(lambda: not _is_closed(alive_end))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        first()
        return
    while True:
        came = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if came.si_signo != signal.SIGCHLD:
            # What the terminal sends, it sends to the child too.
            if came.si_code <= _SI_USER_MAX:
                with suppress(ProcessLookupError):
                    os.kill(pid, came.si_signo)
            continue
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
    finish()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _is_closed(descriptor: int) -> bool:
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


def _folder() -> Path:
    """The user's private directory; made when it is not there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and os.access(runtime, os.W_OK | os.X_OK):
        folder = Path(runtime) / "netprobe"
    else:
        folder = Path(tempfile.gettempdir()) / f"netprobe-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PlatformError(f"{folder} is not a directory of yours alone: remove it, or set XDG_RUNTIME_DIR")
    return folder


def _holder(folder: Path) -> int | None:
    """The process id of the user's holder, if it is alive."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads((folder / "holder.json").read_text(encoding="ascii"))
        pid = known["pid"]
        if isinstance(pid, int) and pid > 0 and known == _identity(pid):
            return pid
    return None


def _identity(pid: int) -> dict[str, object]:
    # Field 22 of stat is the start: ids are used again. The second, in parentheses, may hold anything.
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(pid)
    return {"pid": pid, "start_ticks": int(fields[19]), "boot_id": boot_id}


def _start_holder(folder: Path) -> int:
    """Start the process that keeps the namespaces; its id. Raises PlatformError when the machine refuses."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    starter = os.fork()
    if starter == 0:
        os.close(reading)
        _become_starter(writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(starter, 0)
    if not answer.isdecimal():
        raise PlatformError(answer or "the process that keeps the labs' namespaces did not start")
    pid = int(answer)
    (folder / "holder.json").write_text(json.dumps(_identity(pid)), encoding="ascii")
    return pid


def _become_starter(writing: int) -> None:
    """Never returns. Writes the holder's id, or why there is none, to a pipe."""
    try:
        os.setsid()
        namespaces.leave_for_new()
        ready_end, child_end = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _become_holder(child_end)
        os.close(child_end)
        with os.fdopen(ready_end, encoding="utf-8") as pipe:
            fault = pipe.read()
        os.write(writing, (fault or str(pid)).encode())
    except NetprobeError as error:
        os.write(writing, str(error).encode())
    finally:
        os._exit(0)


def _become_holder(writing: int) -> None:
    """Never returns. Process 1 of the new namespaces: it reaps what is left to it, and keeps them."""
    try:
        namespaces.furnish()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        # Kept over exec, and means: the kernel reaps.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # A shell's word for waiting costs 1 MB, a Python 20.
        os.execvp("sleep", ["sleep", "infinity"])
    except NetprobeError as error:
        os.write(writing, str(error).encode())
    finally:
        os._exit(1)
