"""The audit of this host: what may make a reading taken here wrong. Reads /proc and a socket's ioctls only.

Each task is quick (a tenth of a second) and changes nothing. What a host does not show is null.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import time

from . import addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAPS, NAP_S = 50, 0.001
PROGRAMS = {"iperf3": ("iperf3", "--version"), "fping": ("fping", "--version")}
PROGRAM_TIMEOUT_S = 2.0
_MOST_OUTPUT = 4096
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SIOCGIFMTU, _SIOCETHTOOL, _GET_SETTINGS, _GET_DRIVER = 0x8921, 0x8946, 0x1, 0x3
_UNKNOWN_SPEED = (0, 0xFFFF, 0xFFFFFFFF)


def audit(message: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], None]:
    """Read everything; ratios of CPU time are those since the audit before this one.

    ``address`` is the one that is probed; ``programs`` asks for the versions of other programs too.
    """
    ticks = _cpu_ticks()
    steal, busy = _shares(resources.get("audit_ticks"), ticks)
    resources["audit_ticks"] = ticks
    p50, p99 = _nap_delays()
    answer = {
        "type": "audited",
        "wall_ns": time.time_ns(),
        "load": _load(),
        "cores": len(os.sched_getaffinity(0)),
        "steal_ratio": steal,
        "busy_ratio": busy,
        "delay_p50_ns": p50,
        "delay_p99_ns": p99,
        "clock_source": _word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "congestion_control": _word("/proc/sys/net/ipv4/tcp_congestion_control"),
        "raw_icmp": _may_raw(),
    }
    answer.update(_interface(str(message.get("address", ""))))
    if message.get("programs"):
        answer["programs"] = {name: _first_line(argv) for name, argv in PROGRAMS.items()}
    return answer, None


def resolve(message: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], None]:  # noqa: ARG001
    """What this host's own name resolves to here (127.0.1.1 misleads MPI and Gloo)."""
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(os.uname().nodename, None)})
    except (OSError, UnicodeError):
        found = []
    return {"type": "resolved", "addresses": found[:16]}, None


def _cpu_ticks() -> list[int] | None:
    """user, nice, system, idle, iowait, irq, softirq, steal of all cores."""
    try:
        with open("/proc/stat") as stream:
            words = stream.readline().split()
        return [int(word) for word in words[1:9]] if len(words) >= 9 else None
    except (OSError, ValueError):
        return None


def _shares(before: list[int] | None, now: list[int] | None) -> tuple[float | None, float | None]:
    if before is None or now is None:
        return None, None
    spent = [max(0, b - a) for a, b in zip(before, now)]
    total = sum(spent)
    if not total:
        return None, None
    return spent[7] / total, 1 - (spent[3] + spent[4]) / total


def _nap_delays() -> tuple[int, int]:
    """How much longer than requested a sleep takes, in ns: median and 99th percentile."""
    late = []
    for _ in range(NAPS):
        began = time.monotonic_ns()
        time.sleep(NAP_S)
        late.append(max(0, time.monotonic_ns() - began - int(NAP_S * 1e9)))
    late.sort()
    return late[NAPS // 2], late[-1 - NAPS // 100]


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _word(path: str) -> str | None:
    try:
        with open(path) as stream:
            return stream.read(64).strip() or None
    except (OSError, ValueError):
        return None


def _may_raw() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
        return True
    except OSError:
        return False


def _interface(address: str) -> dict[str, Any]:
    """Name, MTU, driver and speed (Mbit/s) of the interface that has an address."""
    names = [entry["interface"] for entry in addresses.list_addresses() if entry["address"] == address]
    name = names[0] if names else ""
    found = {"interface": name or None, "mtu": None, "driver": None, "speed": None}  # type: dict[str, Any]
    if not name or len(name) > 15:
        return found
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        request = struct.pack("16si12x", name.encode(), 0)
        found["mtu"] = struct.unpack_from("i", fcntl.ioctl(sock, _SIOCGIFMTU, request), 16)[0]
        driver = _ethtool(sock, name, _GET_DRIVER, 196)
        if driver is not None:
            found["driver"] = driver[4:36].split(b"\0")[0].decode("ascii", "replace") or None
        settings = _ethtool(sock, name, _GET_SETTINGS, 44)
        if settings is not None:
            low, high = struct.unpack_from("H", settings, 12)[0], struct.unpack_from("H", settings, 28)[0]
            speed = high << 16 | low
            found["speed"] = None if speed in _UNKNOWN_SPEED else speed
    except OSError:
        pass
    finally:
        sock.close()
    return found


def _ethtool(sock: socket.socket, name: str, command: int, size: int) -> bytes | None:
    """One ethtool ioctl (linux/ethtool.h), its structure of ``size`` bytes filled in; None when refused."""
    import array

    data = array.array("B", struct.pack("I", command) + bytes(size - 4))
    request = struct.pack("16sP16x", name.encode(), data.buffer_info()[0])
    try:
        fcntl.ioctl(sock, _SIOCETHTOOL, request[:40])
    except OSError:
        return None
    return data.tobytes()


def _first_line(argv: tuple[str, ...]) -> str | None:
    """The first line that a program prints, within the time; None when it is not there or says nothing."""
    path = _find(argv[0])
    if path is None:
        return None
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    actions = [
        (os.POSIX_SPAWN_DUP2, null, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_DUP2, null, 2),
    ]
    data = b""
    try:
        child = os.posix_spawn(path, argv, dict(os.environ, LC_ALL="C"), file_actions=actions)
    except OSError:
        os.close(reading)
        return None
    finally:
        os.close(writing)
        os.close(null)
    deadline = time.monotonic() + PROGRAM_TIMEOUT_S
    try:
        while b"\n" not in data and len(data) < _MOST_OUTPUT:
            ready, _, _ = select.select((reading,), (), (), max(0.0, deadline - time.monotonic()))
            part = os.read(reading, _MOST_OUTPUT) if ready else b""
            if not part:
                break
            data += part
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return data.split(b"\n")[0].decode("ascii", "replace").strip()[:100] or None


def _find(program: str) -> str | None:
    for folder in (os.environ.get("PATH", "") + ":" + _PATH).split(":"):
        path = os.path.join(folder, program)
        if folder.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None
