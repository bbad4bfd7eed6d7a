"""The tasks of iperf3: its version, a server for one test, a client, and the server's sure end."""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import socket
import time

from ..child import NOT_FOUND, Child
from ..listening import bind_in_range, family_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = tuple[dict[str, Any], None]

PROGRAM = "iperf3"
VERSION_S = 3.0
READY_S = 3.0
TRIES = 3
MAX_OUTPUT_BYTES = 160 << 10
"""Escaped as JSON it still fits a frame."""
_POLL_S = 0.005
_LISTEN = "0A"


def version(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """The first line of ``iperf3 --version``."""
    child = Child([PROGRAM, "--version"])
    output = _read(child, 1 << 14, VERSION_S)
    if child.process.returncode == NOT_FOUND:
        raise OSError(errno.ENOENT, "there is no program %s" % PROGRAM)
    return {"type": "version", "output": _text(output[:200])}, None


def serve(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Start a server that serves one test. It stays until the test is over, or ``iperf_stop``."""
    address, (low, high) = message["address"], message["ports"]
    servers = resources.setdefault("iperf", {})
    for attempt in range(TRIES):
        host, port = _free_port(address, (int(low), int(high)))
        bound = ["-B", host] if host == address else []
        child = Child([PROGRAM, "-s", "-1", "-p", str(port), *bound])
        until = time.monotonic() + READY_S
        while not _listens(port) and not child.ended and time.monotonic() < until:
            time.sleep(_POLL_S)  # old versions say that they listen only when they end
        if not child.ended and _listens(port):
            servers[port] = child
            return {"type": "serving", "port": port}, None
        output = _text(_read(child, 1 << 14, 0.2)).strip() if child.ended else "it does not listen"
        child.kill()
        if attempt == TRIES - 1 or "in use" not in output:  # another program may have been quicker
            break
    raise OSError(errno.EIO, "%s -s: %s" % (PROGRAM, output[-200:]))


def send(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """Run a client to its end; the answer has all that it printed."""
    argv = [PROGRAM, "-c", message["address"], "-p", str(int(message["port"])), "-J", "-i", "0"]
    argv += ["-P", str(int(message["streams"]))]
    if message["bytes"]:
        argv += ["-n", str(int(message["bytes"]))]
    else:
        argv += ["-t", str(int(message["seconds"]))]
    if _is_local(message["source"]):
        argv += ["-B", message["source"]]
    child = Child(argv)
    output = _read(child, MAX_OUTPUT_BYTES, float(message["limit_s"]))
    return {"type": "report", "code": child.process.returncode, "output": _text(output)}, None


def stop(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """End a server if it is still there."""
    child = resources.get("iperf", {}).pop(int(message["port"]), None)
    if child is not None:
        child.kill()
    return {"type": "stopped"}, None


def _read(child: Child, limit: int, seconds: float) -> bytes:
    try:
        return child.read(limit, time.monotonic() + seconds)
    except ValueError as error:
        raise OSError(errno.EIO, "%s: %s" % (PROGRAM, error)) from None


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def _free_port(address: str, ports: tuple[int, int]) -> tuple[str, int]:
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        host = bind_in_range(sock, address, ports, "TCP")
        return host, int(sock.getsockname()[1])
    finally:
        sock.close()


def _listens(port: int) -> bool:
    """Whether a socket of this host listens there. Connecting to see would use the server's one test up."""
    wanted = ":%04X" % port
    for name in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            with open(name) as file:
                for line in file:
                    words = line.split()
                    if words[1].endswith(wanted) and words[3] == _LISTEN:
                        return True
        except OSError:
            continue
    return False


def _is_local(address: str) -> bool:
    sock = socket.socket(family_of(address), socket.SOCK_DGRAM)
    try:
        sock.bind((address, 0))
    except OSError:
        return False
    finally:
        sock.close()
    return True
