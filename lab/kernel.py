"""Namespaces, interfaces, host names, processes: what a lab needs of the kernel."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.lab.spec.layout import NETWORK, ROUTER_ADDRESS, ROUTER_HARDWARE_ADDRESS, LabHost, Layout
from netprobe.lab.state import Process

NETNS = Path("/run/netns")
HOST_INTERFACE = "eth0"
# Larger packets than this overflow the switch's queue of 20 ms at rates near 100 Mbit/s.
GSO_BYTES_MAX = 16000
KILL_WAIT_S = 10.0
_SETUPS_AT_ONCE = 4

_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
}
# sshd is not on every user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

_CLONE_NEWNET = 0x40000000
_CLONE_NEWUTS = 0x04000000
_MS_BIND = 4096
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def require_root() -> None:
    """Raises PlatformError unless this process may make namespaces."""
    if os.geteuid() != 0:
        raise PlatformError(
            "a lab is made of network namespaces, which needs root: run the same command with sudo"
        )


def find_program(name: str) -> str:
    """The path of a program. Raises PlatformError that names the package to install."""
    path = shutil.which(name, path=_PATH)
    if path is None:
        package = _PACKAGES[name]
        raise PlatformError(
            f"{name} is not on this machine: install it (on Debian: apt-get install {package})"
        )
    return path


def run(argv: Sequence[str], *, lock: int, text: str = "", keep: Sequence[int] = ()) -> None:
    """Run a program to its end, ``text`` on its standard input, holding the lab's lock with it.

    Raises PlatformError with the first line that it complained.
    """
    done = subprocess.run(
        argv,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        pass_fds=(lock, *keep),
        check=False,
    )
    if done.returncode != 0:
        complaint = next(iter(done.stderr.splitlines() or [f"exit status {done.returncode}"]))
        raise PlatformError(f"{Path(argv[0]).name} failed: {complaint}")


def namespace_path(target: str) -> Path:
    """Where iproute2 keeps a namespace of that name."""
    return NETNS / target


def enter_argv(target: str, hostnames: Path) -> list[str]:
    """The beginning of an argv that runs the rest of it on a host: its network and its host name."""
    return [find_program("nsenter"), f"--net={namespace_path(target)}", f"--uts={hostnames / target}", "--"]


def make_namespaces(layout: Layout, *, lock: int) -> None:
    """Make the lab's network namespaces and join each to the fabric by a veth. Raises PlatformError."""
    ip = find_program("ip")
    fabric = layout.fabric_target
    # Without IPv6 in the kernel the word is refused; with it, link-local addresses would chatter.
    quiet = " addrgenmode none" if Path("/proc/net/if_inet6").exists() else ""
    try:
        run([ip, "-batch", "-"], lock=lock, text=_lines(f"netns add {name}" for name in layout.namespaces))
    except PlatformError as error:
        raise PlatformError(
            f"network namespaces cannot be made here ({error}): in a container, it must be a privileged one"
        ) from error
    links = []
    for index, host in enumerate(layout.everyone):
        links.append(
            f"link add name {port_interface(index)} type veth peer name {HOST_INTERFACE}"
            f" address {host.hardware_address} netns {host.target}"
        )
        links.append(f"link set dev {port_interface(index)} up{quiet}")
    run([ip, "-n", fabric, "-batch", "-"], lock=lock, text=_lines(links))

    def set_up(host: LabHost) -> None:
        setup = [
            "link set dev lo up",
            f"link set dev {HOST_INTERFACE} gso_max_size {GSO_BYTES_MAX}{quiet}",
            f"link set dev {HOST_INTERFACE} up",
            f"addr add {host.address}/{NETWORK.prefixlen} dev {HOST_INTERFACE} noprefixroute",
            # One known neighbour, the switch, which finds the host of an address by itself: no address
            # resolution in a first probe's time, and work that grows with the hosts and not with the pairs.
            f"neigh add {ROUTER_ADDRESS} lladdr {ROUTER_HARDWARE_ADDRESS} nud permanent dev {HOST_INTERFACE}",
            f"route add {NETWORK} via {ROUTER_ADDRESS} dev {HOST_INTERFACE} src {host.address} onlink",
        ]
        run([ip, "-n", host.target, "-batch", "-"], lock=lock, text=_lines(setup))

    # Each of these programs waits for its own namespace alone.
    with ThreadPoolExecutor(_SETUPS_AT_ONCE) as pool:
        for _ in pool.map(set_up, layout.everyone):
            pass


def shape_interface(target: str, bytes_per_s: float, limit_bytes: int, *, lock: int) -> None:
    """Give a host's own interface a rate and a queue, which holds its TCP back. Raises PlatformError."""
    # A large packet must fit the burst, or it is cut; a millisecond of it keeps high rates.
    burst = max(GSO_BYTES_MAX, round(bytes_per_s / 1000))
    rate = f"rate {round(bytes_per_s * 8)}bit burst {burst} limit {limit_bytes + burst}"
    setup = f"qdisc add dev {HOST_INTERFACE} root tbf {rate}"
    try:
        run([find_program("tc"), "-n", target, "-batch", "-"], lock=lock, text=f"{setup}\n")
    except PlatformError as error:
        raise PlatformError(
            f"host_shaping: interface needs the kernel's token bucket (sch_tbf): {error}"
        ) from error


def congestion_controls() -> tuple[str, ...]:
    """Names of the TCP congestion controls that a network namespace may have on this machine."""
    # The kernel gives a namespace those that any process may choose, and refuses the others.
    try:
        return tuple(Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text("ascii").split())
    except OSError:
        return ()


def set_tcp(targets: Sequence[str], values: Mapping[str, str]) -> None:
    """Set values of net.ipv4, such as ``tcp_ecn``, in each network namespace. Raises PlatformError."""
    faults: list[str] = []

    def work() -> None:
        # setns() moves only the thread that calls it, whose own network /proc/sys/net then shows.
        for target in targets:
            with namespace_path(target).open("rb") as file:
                _check(_libc.setns(file.fileno(), _CLONE_NEWNET), "setns")
            for key, value in values.items():
                Path("/proc/sys/net/ipv4", key).write_text(value, encoding="ascii")

    def guarded() -> None:
        try:
            work()
        except OSError as error:
            faults.append(str(error))

    thread = threading.Thread(target=guarded, name="netprobe-tcp")
    thread.start()
    thread.join()
    if faults:
        raise PlatformError(f"cannot set the TCP of the lab's hosts ({', '.join(values)}): {faults[0]}")


def port_interface(index: int) -> str:
    """The fabric's end of the veth of the host at ``index`` of Layout.everyone."""
    return f"p{index}"


def remove_namespaces(names: Iterable[str], *, lock: int) -> None:
    """Remove those of the network namespaces that are there. Raises PlatformError."""
    there = [name for name in names if namespace_path(name).exists()]
    if there:
        run(
            [find_program("ip"), "-batch", "-"], lock=lock, text=_lines(f"netns del {name}" for name in there)
        )


def make_hostnames(hosts: Sequence[LabHost], directory: Path) -> None:
    """Make a UTS namespace for each host, kept by a mount on ``directory``/TARGET. Raises PlatformError."""
    faults: list[OSError] = []

    def work() -> None:
        # unshare() moves only the thread that calls it, and this one ends with the work.
        try:
            for host in hosts:
                path = directory / host.target
                path.touch(mode=0o600)
                _check(_libc.unshare(_CLONE_NEWUTS), "unshare")
                socket.sethostname(host.name)
                mounted = _libc.mount(b"/proc/thread-self/ns/uts", os.fsencode(path), None, _MS_BIND, None)
                _check(mounted, "mount")
        except OSError as error:
            faults.append(error)

    thread = threading.Thread(target=work, name="netprobe-hostnames")
    thread.start()
    thread.join()
    if faults:
        raise PlatformError(f"cannot give the lab's hosts their names: {faults[0]}") from faults[0]


def unmount_below(directory: Path) -> None:
    """Undo every mount below a directory."""
    below = os.fsencode(directory) + b"/"
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        point = line.split(b" ")[4]
        if point.startswith(below):
            _libc.umount2(point, _MNT_DETACH)


def end_processes(namespaces: Iterable[str], others: Iterable[Process], *, hostnames: Path) -> None:
    """End, at once, every process that lives in one of the network namespaces, and the given ones.

    Those whose network namespace somebody deleted by its name are known by the host's name, whose namespace
    is kept below ``hostnames``.
    Raises InputError when the calling process lives there itself, PlatformError when one does not end.
    """
    inodes = _inodes([*map(namespace_path, namespaces), *hostnames.glob("*")])
    known = list(others)
    if _lives_in(os.getpid(), inodes):
        raise InputError("this command runs inside the lab that it is to remove: run it outside")
    deadline = time.monotonic() + KILL_WAIT_S
    while True:
        victims = [pid for pid in _all_pids() if _lives_in(pid, inodes)]
        alive = [one for one in known if one.is_alive()]
        if not victims and not alive:
            return
        if time.monotonic() > deadline:
            pids = ", ".join(str(pid) for pid in {*victims, *(one.pid for one in alive)})
            raise PlatformError(
                f"processes of the lab do not end (ids {pids}): end them, then run down again"
            )
        for pid in victims:
            _kill(pid, partial(_lives_in, pid, inodes))
        for one in alive:
            _kill(one.pid, one.is_alive)
        time.sleep(0.01)


def _lives_in(pid: int, inodes: set[tuple[int, int]]) -> bool:
    return not inodes.isdisjoint(_inodes(Path(f"/proc/{pid}/ns/{kind}") for kind in ("net", "uts")))


def _kill(pid: int, is_still: Callable[[], bool]) -> None:
    # The descriptor pins the process: what is checked after it was opened is what gets the signal.
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if is_still():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _inodes(paths: Iterable[Path]) -> set[tuple[int, int]]:
    found = set()
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            found.add((status.st_dev, status.st_ino))
    return found


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _lines(commands: Iterable[str]) -> str:
    return "".join(f"{command}\n" for command in commands)
