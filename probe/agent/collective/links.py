"""The connections of a collective: a port that takes expected peers only, and calls to the others.

Each connection begins with the token of the host that is called, new for this run, the caller's place among
the members and the channel. What does not begin so within two seconds is closed, and nothing was written to it. The
port is open until all peers are there, and no longer.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time

from ..greetings import Greetings
from ..listening import family_of
from ..stamp import packet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[int, int]

TOKEN_BYTES = 16
HELLO = struct.Struct("!16sIH")
"""Token, the caller's place among the members, channel."""
MAX_FAULTS = 16
NOTHING = -1
"""In the place of an action."""
BACKLOG = 1024
_POLL_MS = 250


class Link:
    """One connection to a peer: what is on its way out of it and into it."""

    def __init__(self, sock: socket.socket, peer: int, channel: int) -> None:
        self.sock = sock
        self.peer = peer
        self.key = (peer, channel)
        self.descriptor = sock.fileno()
        self.events = 0
        # Out: bytes of headers, then payload; the action that ends with them (a barrier's message is not an action).
        self.control = []  # type: list[bytes]
        self.head = b""
        self.out_left = 0
        self.sending = NOTHING
        self.next_out = 0
        # In.
        self.got = 0
        self.in_left = 0
        self.receiving = NOTHING
        self.parts = 0
        self.next_in = 0
        self.held = False


class Meeting:
    """Makes all connections of a host, those it makes and those it waits for. ``run`` may be called once.

    ``dial`` lists (peer, address, port, token); ``accept`` the peers that will call. Afterwards ``links`` has
    the connections by (peer, channel), and ``faults`` says (peer, reason) of those that are missing.
    """

    def __init__(
        self, sock: socket.socket, token: bytes, place: int, source: str, channels: int, limit_ns: int
    ) -> None:
        self.listener = sock
        self.token = token
        self.place = place
        self.source = source
        self.channels = channels
        self.until = time.monotonic_ns() + limit_ns
        self.poll = select.poll()
        self.links = {}  # type: dict[Key, Link]
        self.faults = []  # type: list[tuple[int, str]]
        self.calling = {}  # type: dict[int, tuple[socket.socket, Key, str, bytes]]
        self.expected = set()  # type: set[Key]

    def run(self, dial: list[Any], accept: list[int]) -> None:
        """Connect. What was made so far is in ``links`` even when it raises OSError."""
        self.expected = {(peer, channel) for peer in accept for channel in range(self.channels)}
        greetings = Greetings(self.listener, HELLO.size, self.poll)
        try:
            for peer, address, port, token in dial:
                for channel in range(self.channels):
                    self._call(peer, channel, address, port, bytes.fromhex(token))
            while (self.calling or self.expected) and not self.faults and time.monotonic_ns() < self.until:
                for descriptor, _events in self.poll.poll(_POLL_MS):
                    if descriptor in self.calling:
                        self._called(descriptor)
                    else:
                        caller = greetings.ready(descriptor)
                        if caller is not None:
                            self._greeted(*caller)
                greetings.close_late()
            if not self.faults:
                for _sock, (peer, _channel), text, _hello in self.calling.values():
                    self.faults.append((peer, "%s: no answer: a firewall, or no route?" % text))
                for peer, _channel in sorted(self.expected):
                    self.faults.append((peer, "it did not connect"))
        finally:
            greetings.close()
            for sock, _key, _text, _hello in self.calling.values():
                sock.close()
        del self.faults[MAX_FAULTS:]

    def _call(self, peer: int, channel: int, address: str, port: int, token: bytes) -> None:
        sock = socket.socket(family_of(address), socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.bind((self.source, 0))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # behind NAT, say: the kernel chooses then
                sock.close()
                raise
        hello = HELLO.pack(token, self.place, channel)
        text = "%s port %d (TCP)" % (address, port)
        self.calling[sock.fileno()] = (sock, (peer, channel), text, hello)
        code = sock.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS):
            self.faults.append((peer, "%s: %s" % (text, os.strerror(code))))
            return
        self.poll.register(sock, select.POLLOUT)

    def _called(self, descriptor: int) -> None:
        sock, key, text, hello = self.calling[descriptor]
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code:
            try:
                sent = sock.send(hello)  # of a few bytes into an empty buffer all or nothing goes
                code = 0 if sent == len(hello) else errno.EIO
            except OSError as error:
                code = error.errno or errno.EIO
        self.poll.unregister(descriptor)
        del self.calling[descriptor]
        if code:
            sock.close()
            self.faults.append((key[0], "%s: %s" % (text, os.strerror(code))))
        else:
            self._made(sock, key)

    def _greeted(self, sock: socket.socket, hello: bytes) -> None:
        token, peer, channel = HELLO.unpack(hello)
        if packet.same_token(self.token, token) and (peer, channel) in self.expected:
            self.expected.discard((peer, channel))
            self._made(sock, (peer, channel))
        else:
            sock.close()

    def _made(self, sock: socket.socket, key: Key) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.links[key] = Link(sock, key[0], key[1])
