"""Where agents dial back: a TCP port that accepts only agents that prove they know the launch's secret.

A stranger costs one of a bounded number of places for a bounded time: it gets a challenge, and may send one
small frame. When all places are taken the longest-waiting stranger goes, so that a flood of silent
connections keeps no agent out. The handshake is in agent/dial.py, which both ends share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.probe.agent import dial, messages
from netprobe.probe.agent.messages import ProtocolError

STREAM_LIMIT = 1 << 16
HANDSHAKE_S = 5.0
MAX_STRANGERS = 256
BACKLOG = 4096

Identify = Callable[[Mapping[str, str]], Host | None]


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """What the agents of one launch know, and how to tell which host each is."""

    identify: Identify
    variables: tuple[str, ...] = ()
    """Environment variables an agent is asked for, in addition to its host name."""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(dial.KEY_BYTES), repr=False)
    arrivals: asyncio.Queue[Arrival] = field(default_factory=asyncio.Queue)

    def first_frame(self, address: str, port: int, timeout_s: float) -> bytes:
        """What an agent is sent on its standard input."""
        return messages.json_frame(
            {
                "type": "dial",
                "address": address,
                "port": port,
                "key": self.key.hex(),
                "variables": list(self.variables),
                "timeout_s": timeout_s,
            }
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrival:
    """An agent that has proved itself. Its next frame is to be ``config``."""

    host: Host
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class DialListener:
    """Listens from ``start`` to ``close``; agents that are in stay connected after that."""

    def __init__(self, *, max_strangers: int = MAX_STRANGERS, handshake_s: float = HANDSHAKE_S) -> None:
        self.address = ""
        self.port = 0
        self.refused = 0
        self.last_refusal: str | None = None
        """Why the last connection that knew the secret was not taken."""
        self._invitations: list[Invitation] = []
        self._max_strangers = max_strangers
        self._handshake_s = handshake_s
        self._strangers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def start(self, address: str, port: int = 0) -> None:
        """Bind to ``address``. Raises InputError when that cannot be."""
        try:
            self._server = await asyncio.start_server(
                self._met, address, port, limit=STREAM_LIMIT, backlog=BACKLOG
            )
        except OSError as error:
            raise InputError(
                f"cannot listen on {address} port {port or 'any'} for agents that dial back: "
                f"{error.strerror or error}; give an address of this machine with --listen"
            ) from None
        self.address, self.port = self._server.sockets[0].getsockname()[:2]

    def invite(self, invitation: Invitation) -> None:
        """Take the agents of a further launch too."""
        self._invitations.append(invitation)

    async def close(self) -> None:
        """Take no more; whoever has not proved itself is dropped."""
        if self._server is not None:
            self._server.close()
        left = list(self._strangers)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for invitation in self._invitations:
            while not invitation.arrivals.empty():
                invitation.arrivals.get_nowait().writer.transport.abort()

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(self._strangers) >= self._max_strangers:
            oldest = next(iter(self._strangers))
            self._strangers.pop(oldest).transport.abort()
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._greet(reader, writer))
        self._strangers[task] = writer
        task.add_done_callback(lambda done: self._strangers.pop(done, None))

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        welcome = False
        try:
            welcome = await asyncio.wait_for(self._shake_hands(reader, writer), self._handshake_s)
        except (OSError, ProtocolError, ValueError, EOFError, asyncio.TimeoutError, TimeoutError):
            pass
        finally:
            if not welcome:
                self.refused += 1
                writer.transport.abort()

    async def _shake_hands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        challenge = secrets.token_hex(dial.NONCE_BYTES)
        writer.write(messages.json_frame({"type": "challenge", "nonce": challenge}))
        kind, length = messages.parse_header(await reader.readexactly(messages.HEADER_BYTES))
        if kind != messages.JSON_FRAME or length > dial.MAX_GREETING_BYTES:
            raise ProtocolError("no greeting")
        message = messages.parse_json(await reader.readexactly(length))
        nonce, names, shown = (str(message.get(key, "")) for key in ("nonce", "names", "proof"))
        for invitation in self._invitations:
            key = invitation.key
            if not dial.same(shown, dial.proof(key, dial.AGENT, challenge, nonce, names)):
                continue
            host = invitation.identify(_checked_names(names))
            if host is None:
                self.last_refusal = f"an agent dialled back as {names[:200]}, which is not a host waited for"
                return False
            _no_delay(writer)
            answer = dial.proof(key, dial.CONTROLLER, challenge, nonce, names)
            writer.write(messages.json_frame({"type": "welcome", "proof": answer}))
            invitation.arrivals.put_nowait(Arrival(host=host, reader=reader, writer=writer))
            return True
        return False


def _checked_names(text: str) -> dict[str, str]:
    """The names in an agent's greeting. Raises ProtocolError."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("names that are no JSON") from None
    if not isinstance(names, dict) or not all(isinstance(value, str) for value in names.values()):
        raise ProtocolError("names that are not valid")
    return names


def _no_delay(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
