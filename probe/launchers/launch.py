"""Launchers: how byte channels to the agents come about.

A launcher starts an agent on each host and yields a channel as each one answers with the payload's marker.
Nothing in the Protocol says that there is one process a host: a launcher that starts many agents with one
command (srun, mpirun) and lets them dial back yields the same channels.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from netprobe.core.hosts import Host
from netprobe.probe.launchers.bootstrap import Payload

MAX_NOISE_BYTES = 1 << 18
"""What a login shell may print before the agent's marker."""


@dataclass(frozen=True, kw_only=True)
class LaunchFailure:
    """A host without an agent, and why, on one line."""

    host: Host
    reason: str


class Channel(Protocol):
    """Bytes to and from one agent, standing right behind the marker."""

    host: Host
    reader: asyncio.StreamReader

    def write(self, data: bytes) -> None:
        """Queue bytes for the agent; a channel that is gone swallows them."""
        ...

    def queued_bytes(self) -> int:
        """Bytes written that have not left yet."""
        ...

    def diagnosis(self) -> str | None:
        """What the other side said before it went (the last line of its standard error, say)."""
        ...

    def close(self) -> None:
        """End the agent's input, which ends the agent."""
        ...

    async def reap(self, grace_s: float) -> None:
        """Wait for the end after ``close``; kill what is left after ``grace_s``."""
        ...

    def kill(self) -> None:
        """End it now, without waiting and without an event loop; may be called twice."""
        ...


class Launcher(Protocol):
    """Starts agents."""

    local: bool
    """True when all agents run on this machine and probe loopback addresses."""

    def check(self, hosts: Sequence[Host]) -> None:
        """Raise InputError for invalid input, before anything is started."""
        ...

    def launch(
        self, hosts: Sequence[Host], payload: Payload, timeout_s: float
    ) -> AsyncIterator[Channel | LaunchFailure]:
        """One Channel or LaunchFailure a host, in the order in which they come up.

        Closing the iterator early ends every agent that has not been yielded.
        """
        ...


class NoiseError(Exception):
    """The marker did not come: the stream ended, or too much came before it."""

    def __init__(self, reason: str, noise: bytes) -> None:
        self.noise = noise
        super().__init__(reason)


async def skip_to_marker(reader: asyncio.StreamReader, marker: bytes) -> bytes:
    """Read up to and with ``marker``, not a byte further; returns what stood before it."""
    noise = bytearray(b"\n")  # the marker begins with a line break, and may come first
    while not noise.endswith(marker):
        try:
            noise += await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            noise += error.partial
            raise NoiseError("the stream ended before the agent answered", bytes(noise)) from None
        except asyncio.LimitOverrunError as error:
            noise += await reader.readexactly(error.consumed)
        if len(noise) > MAX_NOISE_BYTES:
            raise NoiseError(
                f"printed more than {MAX_NOISE_BYTES} bytes before the agent answered", bytes(noise)
            )
    return bytes(noise[1 : -len(marker)])
