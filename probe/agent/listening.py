"""Binding sockets: one that peers look for, and one that probes from the right address and port."""

from __future__ import annotations

import errno
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_TRIES = 16


def bind_in_range(sock: socket.socket, address: str, ports: tuple[int, int], kind: str) -> str:
    """Bind to the first free port of the range (both ends included), and return the address it got.

    Where the address is not one of this host's (behind NAT, say) it is bound on all. ``kind`` is for the error.
    Raises OSError.
    """
    low, high = ports
    for host in (address, "::" if ":" in address else "0.0.0.0"):
        for port in range(low, high + 1):
            try:
                sock.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                if error.errno == errno.EADDRNOTAVAIL and host == address:
                    break
                raise
            return host
        else:
            raise OSError(errno.EADDRINUSE, "no free %s port in %d-%d" % (kind, low, high))
    raise OSError(errno.EADDRNOTAVAIL, "cannot bind to %s" % address)


def family_of(address: str) -> int:
    """The socket family of an address in text."""
    return int(socket.AF_INET6 if ":" in address else socket.AF_INET)


def bind_source(sock: socket.socket, source: str, avoid: Collection[int] = (), port: int = 0) -> None:
    """Bind a prober's socket to ``port``, or a free one that is not one of ``avoid``.

    To the address that peers probe, where this host has it; else the kernel chooses one. Raises OSError.
    """
    any_address = "::" if sock.family == socket.AF_INET6 else "0.0.0.0"
    if port or not avoid:
        _bind_either(sock, source, any_address, port)
        return
    for _ in range(_TRIES):
        free = _free_port(sock, source, any_address)
        if free in avoid:
            continue
        try:
            _bind_either(sock, source, any_address, free)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            continue  # somebody else was quicker
        return
    raise OSError(errno.EADDRINUSE, "no further source port is free")


def _free_port(like: socket.socket, source: str, any_address: str) -> int:
    sock = socket.socket(like.family, like.type)
    try:
        _bind_either(sock, source, any_address, 0)
        return int(sock.getsockname()[1])
    finally:
        sock.close()


def _bind_either(sock: socket.socket, source: str, any_address: str, port: int) -> None:
    try:
        sock.bind((source, port))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        sock.bind((any_address, port))
