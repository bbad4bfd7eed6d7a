"""Binding a socket where peers will look for it: on the probed address, in the range of ports."""

from __future__ import annotations

import errno
import socket


def bind_in_range(sock: socket.socket, address: str, ports: tuple[int, int], kind: str) -> str:
    """Bind to the first free port of the range (both ends included), and return the address it got.

    Where the address is none of this host's (behind NAT, say) it is bound on all. ``kind`` is for the error.
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
