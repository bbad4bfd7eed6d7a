"""Linux namespaces without root: an ordinary user becomes root of a small world of their own.

In a user namespace of one's own one may make network namespaces, mounts and process ids, none of which
reach the machine (user_namespaces(7)). Some machines refuse them; then there is one line that says so.

Nothing here imports a heavy package, and nothing may be loaded before: a process with threads cannot
leave its user namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from netprobe.core.errors import PlatformError

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_NEW = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWPID
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9
# Ours: the labs of root, and those of the world outside, are not this world's.
_NOT_KEPT = {"netns", "netprobe"}
_libc = ctypes.CDLL(None, use_errno=True)


def is_one_user_world() -> bool:
    """Whether this process is root of a namespace that knows one user only, and not of the machine."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/uid_map").read_text(encoding="ascii").split()[2]) == 1
    return False


def leave_for_new() -> None:
    """Move this process into a user, mount and network namespace of its own, as root there.

    Its next child is process 1 of a new process id namespace, and has to call ``furnish``.
    Raises PlatformError when the machine refuses.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        if not _is_alone():
            raise OSError(errno.EINVAL, "this process has threads")
        _check(_libc.unshare(_NEW), "unshare")
        # Without this an unprivileged process may map no group (user_namespaces(7)).
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    except OSError as error:
        raise _refused(error) from error


def leave_for(pid: int) -> None:
    """Move this process into the namespaces of another one of the same user; its children have their ids there.

    Raises PlatformError when that cannot be.
    """
    here = Path.cwd()
    descriptors: list[int] = []
    try:
        for name in ("user", "mnt", "net", "pid"):
            descriptors.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
        for descriptor in descriptors:
            _check(_libc.setns(descriptor, 0), "setns")
        os.chdir(here)
    except OSError as error:
        raise _refused(error) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def furnish() -> None:
    """Give the new world its own /proc, and a /run with what was there and room for its own namespaces.

    Raises PlatformError when the machine refuses.
    """
    try:
        _mount("none", "/", None, _MS_REC | _MS_SLAVE)
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        old = os.open("/run", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _mount("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
            for path in sorted(Path(f"/proc/self/fd/{old}").iterdir()):
                # What cannot be taken over (somebody else's, vanished) is not needed for a lab.
                with suppress(OSError):
                    if path.name not in _NOT_KEPT:
                        _keep(path, Path("/run") / path.name)
        finally:
            os.close(old)
        Path("/run/netns").mkdir(mode=0o755)
    except OSError as error:
        raise _refused(error) from error


def die_with_parent(parent_is_alive: Callable[[], bool]) -> None:
    """Have the kernel end this process when its parent ends, however that ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
    if not parent_is_alive():
        os._exit(1)


def _is_alone() -> bool:
    return len(list(Path("/proc/self/task").iterdir())) == 1


def _keep(source: Path, place: Path) -> None:
    mode = source.lstat().st_mode
    if stat.S_ISLNK(mode):
        place.symlink_to(source.readlink())
        return
    if stat.S_ISDIR(mode):
        place.mkdir()
    else:
        place.touch()
    _mount(str(source), str(place), None, _MS_BIND | _MS_REC)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(
        _libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mount {target}"
    )


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _refused(error: OSError) -> PlatformError:
    return PlatformError(
        "this machine refuses an ordinary user's namespaces "
        f"({error.strerror or error}), and then a lab needs root: run the same command with sudo"
    )
