"""Runs on a host: starts the processes of a job there, and leaves none of them behind.

It stands alone: its text is sent to the host and run as it is. Standard input brings eight hexadecimal digits, so many
bytes of JSON that say what to run, and then one byte a message: the number of a signal to pass on, ``BEAT`` (the
controller lives), or ``END``. The processes end when input does, when nothing came for ``lease_s``, and when one of
them fails; first SIGTERM, SIGKILL after ``grace_s``. As a subreaper (prctl) this process becomes the parent of
whatever a job left in the background, in a session of its own too (torchrun's workers are), so that it finds them all.

What is to be run comes as input and not as arguments, which every user of the host could read.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401 (in comments)
    from typing import Any  # noqa: F401 (in comments)

BEAT = 0
END = 255
CANNOT_RUN = 126
NOT_FOUND = 127
GIVE_UP_S = 5.0
AFTER_S = 2.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Job:
    """The processes of one host, and what is left of them."""

    def __init__(self, order):
        # type: (dict[str, Any]) -> None
        self.grace_s = order["grace_s"]
        self.lease_s = order["lease_s"]
        self.running = {}  # type: dict[int, subprocess.Popen[bytes]]
        self.code = 0
        self.ending_since = None  # type: float | None
        self.patience_s = self.grace_s
        self._kept = []  # type: list[subprocess.Popen[bytes]]
        self._prctl = _find_prctl()
        self.is_reaper = self._prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def start(self, order):
        # type: (dict[str, Any]) -> None
        """One process for each of ``each``, with its variables. A program that is not there is a failure."""
        argv = [_bytes(word) for word in order["argv"]]
        for own in order["each"]:
            env = dict(os.environb)
            for given in (order["env"], own):
                env.update({_bytes(name): _bytes(value) for name, value in given.items()})
            try:
                child = subprocess.Popen(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    preexec_fn=lambda: self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
                )
            except OSError as error:
                _say("cannot run %r: %s" % (order["argv"][0], error.strerror))
                self._failed(NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN)
                return
            self._kept.append(child)
            self.running[child.pid] = child

    def pass_on(self, number):
        # type: (int) -> None
        """To the process group of each process, as a terminal does it."""
        for pid in list(self.running):
            _kill_group(pid, number)

    def end(self, patience_s=None):
        # type: (float | None) -> None
        """Ask all to end, once; ``look`` kills those that do not."""
        if self.ending_since is None:
            self.ending_since = time.monotonic()
            self.patience_s = self.grace_s if patience_s is None else patience_s
            self._signal_all(signal.SIGTERM)

    def kill(self):
        # type: () -> None
        """End all of them now."""
        self.ending_since = time.monotonic()
        self.patience_s = 0.0
        self._signal_all(signal.SIGKILL)

    def look(self):
        # type: () -> bool
        """Collect what has ended; True when nothing is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if self.running.pop(pid, None) is not None:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                if code:
                    self._failed(code)
        if self.running or self.left():
            if not self.running:
                self.end(min(AFTER_S, self.grace_s))
            return self._lost_patience()
        return True

    def left(self):
        # type: () -> list[int]
        """Processes that descend from this one, started ones and what they started."""
        return _descendants(os.getpid()) if self.is_reaper else list(self.running)

    def _failed(self, code):
        # type: (int) -> None
        self.code = self.code or code
        self.end()

    def _lost_patience(self):
        # type: () -> bool
        if self.ending_since is None:
            return False
        waited_s = time.monotonic() - self.ending_since
        if waited_s >= self.patience_s:
            self._signal_all(signal.SIGKILL)
        return bool(waited_s >= self.patience_s + GIVE_UP_S)

    def _signal_all(self, number):
        # type: (int) -> None
        for pid in list(self.running):
            _kill_group(pid, number)
        for pid in self.left():
            if pid not in self.running:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass


def _kill_group(pid, number):
    # type: (int, int) -> None
    try:
        os.killpg(pid, number)
    except OSError:
        pass


def _find_prctl():
    # type: () -> Callable[[int, int], bool]
    """prctl(2), or a function that says it failed where there is none."""
    try:
        import ctypes

        call = ctypes.CDLL(None).prctl
        return lambda option, value: bool(call(option, int(value), 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return lambda _option, _value: False


def _descendants(above):
    # type: (int) -> list[int]
    children = {}  # type: dict[int, list[int]]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as stream:
                    fields = stream.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [above]
    while todo:
        todo += children.get(todo[0], [])
        found += children.get(todo.pop(0), [])
    return found


def _bytes(text):
    # type: (str) -> bytes
    return text.encode("utf-8", "surrogateescape")


def _say(text):
    # type: (str) -> None
    try:
        os.write(2, ("netprobe: %s\n" % text).encode("utf-8", "replace"))
    except OSError:
        pass


def _read(size):
    # type: (int) -> bytes
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(3)
        data += part
    return data


def _go_to(folder, needed):
    # type: (str | None, bool) -> bool
    """The controller's own folder where the host has it, as mpirun and srun do it."""
    try:
        if folder is not None:
            os.chdir(_bytes(folder))
    except OSError as error:
        if needed:
            _say("cannot go to %r: %s" % (folder, error.strerror))
            return False
    return True


def main():
    # type: () -> None
    order = json.loads(_read(int(_read(8), 16)).decode("ascii"))
    # What ignores signals makes its children ignore them too; a handler is not inherited.
    waking, woken = os.pipe()
    for end in (waking, woken):
        os.set_blocking(end, False)
    asked = []  # type: list[int]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda number, _frame: asked.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    if not _go_to(order["folder"], order["folder_needed"]):
        os._exit(CANNOT_RUN)
    job = Job(order)
    job.start(order)
    heard = time.monotonic()
    listening = [0, waking]
    while not job.look():
        readable = select.select(listening, [], [], 0.05 if job.ending_since is not None else 1.0)[0]
        if waking in readable:
            os.read(waking, 512)
        if 0 in readable:
            heard = time.monotonic()
            words = os.read(0, 512)
            if not words:
                listening.remove(0)
                job.end()
            for word in words:
                if word == END:
                    job.end()
                elif word == signal.SIGKILL:
                    job.kill()
                elif word != BEAT:
                    job.pass_on(word)
        if asked or time.monotonic() - heard > job.lease_s:
            job.end()
    sys.stdout.flush()
    os._exit(job.code)


if __name__ == "__main__":
    main()
