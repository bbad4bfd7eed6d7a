"""TCP connections between every two ranks, so many a pair, opened through a part of the job's store.

Each rank listens at an address of its own, and says where; it connects to the ranks below it, and those above
connect to it. A connection begins with a word that only the ranks know: whoever else finds the port is shown out.
"""

from __future__ import annotations

import errno
import json
import secrets
import selectors
import socket
import struct
import sys
from datetime import timedelta
from time import monotonic
from typing import Any

Key = tuple[int, int]
"""A peer and a channel."""
_HELLO = struct.Struct("!32sII")
_TRY_S = 5.0
CONNECT_S = 30.0
"""So long ranks that are all there connect to each other, or half of the executor's time-out."""
STRANGERS = 64
"""So many that say nothing are kept, besides twice as many as are to come."""
_FORM = [1, sys.byteorder]
"""Of messages: the version of their headers, the order of bytes."""


class NotConnectedError(Exception):
    """This rank could not open its connections; says why."""


class Listening:
    """This rank's end, for connections of ``channels`` a pair, at ``address``."""

    def __init__(self, address: str, ranks: int, channels: int) -> None:
        """Raises NotConnectedError."""
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self._listener = socket.socket(family, socket.SOCK_STREAM)
            self._listener.bind((address, 0))
            self._listener.listen(min(4096, ranks * channels + 16))
            self._listener.setblocking(False)
        except OSError as error:
            raise NotConnectedError(f"it cannot listen at {address}: {error}") from None
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        """End it."""
        self._listener.close()

    def accept(self, word: bytes, wanted: set[Key], deadline: float) -> dict[Key, socket.socket]:
        """Connections of the peers and channels ``wanted``. Raises NotConnectedError when time is up."""
        found: dict[Key, socket.socket] = {}
        said: dict[socket.socket, bytes] = {}
        # Not select(), which knows no descriptor above 1023.
        with selectors.DefaultSelector() as watched:
            try:
                watched.register(self._listener, selectors.EVENT_READ)
                while len(found) < len(wanted):
                    rest = deadline - monotonic()
                    if rest <= 0:
                        missing = sorted({peer for peer, _ in wanted - set(found)})
                        raise NotConnectedError(f"ranks {missing[:8]} did not connect to it in time")
                    for key, _ in watched.select(min(rest, 1.0)):
                        one = key.fileobj
                        assert isinstance(one, socket.socket)
                        if one is self._listener:
                            self._let_in(said, watched, 2 * len(wanted) + STRANGERS)
                        elif one in said and (text := _heard(one, said)) is not None:
                            watched.unregister(one)
                            del said[one]
                            _sort(one, text, word, wanted, found)
            except (NotConnectedError, OSError, ValueError) as error:
                for one in found.values():
                    one.close()
                raise NotConnectedError(str(error)) from None
            finally:
                for one in said:
                    one.close()
        return found

    def _let_in(self, said: dict[socket.socket, bytes], watched: selectors.BaseSelector, most: int) -> None:
        """Accept a connection. For one that is too many, the one goes that has been silent longest: ours are not."""
        fresh = None
        try:
            fresh, _ = self._listener.accept()
            fresh.setblocking(False)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                return
            if not said:
                raise
        if fresh is None or len(said) >= most:
            oldest = next(iter(said))
            watched.unregister(oldest)
            del said[oldest]
            oldest.close()
        if fresh is not None:
            said[fresh] = b""
            watched.register(fresh, selectors.EVENT_READ)


def _heard(one: socket.socket, said: dict[socket.socket, bytes]) -> bytes | None:
    """The first bytes of a connection, when these are all, or it has ended."""
    try:
        more = one.recv(_HELLO.size - len(said[one]))
    except BlockingIOError:
        return None
    except OSError:
        more = b""
    said[one] += more
    return None if more and len(said[one]) < _HELLO.size else said[one]


def _sort(
    one: socket.socket, text: bytes, word: bytes, wanted: set[Key], found: dict[Key, socket.socket]
) -> None:
    """One of ours is kept, others are closed."""
    if len(text) == _HELLO.size:
        theirs, peer, channel = _HELLO.unpack(text)
        if secrets.compare_digest(theirs, word) and (peer, channel) in wanted - set(found):
            found[peer, channel] = one
            return
    one.close()


def connect(
    store: Any, address: str, rank: int, ranks: int, channels: int, timeout_s: float, why_not: str = ""
) -> dict[Key, socket.socket]:
    """The connections of ``rank``, by peer and channel; they do not block. Raises NotConnectedError.

    ``why_not``: what keeps this rank from it; then no rank connects. Raises RuntimeError as the store does, where a
    rank does not come.
    """
    listening: Listening | None = None
    if not why_not:
        try:
            listening = Listening(address, ranks, channels)
        except NotConnectedError as error:
            why_not = str(error)
    found: dict[Key, socket.socket] = {}
    try:
        port = 0 if listening is None else listening.port
        store.set(f"at {rank}", json.dumps([address, port, secrets.token_hex(16), why_not, _FORM]))
        keys = [f"at {other}" for other in range(ranks)]
        store.wait(keys, timedelta(seconds=timeout_s))  # compilers too may take long
        deadline = monotonic() + min(timeout_s / 2, CONNECT_S)
        places = [json.loads(store.get(key)) for key in keys]
        for other, place in enumerate(places):
            if place[3]:
                raise NotConnectedError(f"rank {other}: {place[3]}")
            if place[4] != places[0][4]:
                raise NotConnectedError(f"rank {other}: its messages are of another form than rank 0's")
        assert listening is not None
        word = places[0][2].encode()
        for peer in range(rank):
            for channel in range(channels):
                found[peer, channel] = _reach(places[peer], deadline)
                found[peer, channel].sendall(_HELLO.pack(word, rank, channel))
        above = {(peer, channel) for peer in range(rank + 1, ranks) for channel in range(channels)}
        found |= listening.accept(word, above, deadline)
        for one in found.values():
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "SO_NOSIGPIPE"):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_NOSIGPIPE, 1)
    except (NotConnectedError, OSError) as error:
        for one in found.values():
            one.close()
        raise NotConnectedError(str(error)) from None
    finally:
        if listening is not None:
            listening.close()
    return found


def _reach(place: list[Any], deadline: float) -> socket.socket:
    address, port = place[:2]
    return socket.create_connection((address, port), max(min(_TRY_S, deadline - monotonic()), 0.1))
