"""The agents of a scan: bringing them up, giving each an address and an open port, ending them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from netprobe.core.documents.scan import HostStatus
from netprobe.core.hosts import Host
from netprobe.core.text import one_line
from netprobe.probe.agent.messages import TOKEN_BYTES, ProtocolError
from netprobe.probe.fleet.addressing import check_given, choose_addresses
from netprobe.probe.fleet.connection import (
    AgentLostError,
    Connection,
    Hello,
    TaskFailedError,
    text_field,
    whole_field,
)
from netprobe.probe.fleet.duplicates import find_duplicates
from netprobe.probe.fleet.stopping import until_stopped
from netprobe.probe.launchers.bootstrap import new_payload
from netprobe.probe.launchers.launch import Channel, Launcher, LaunchFailure
from netprobe.probe.records.events import AgentsUp, HostFailed, HostUp, OnEvent, ScanWarning
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome

OPEN_TIMEOUT_S = 5.0
OPEN_A_HOST_S = 0.02
END_GRACE_S = 0.5


@dataclass(kw_only=True)
class Member:
    """A host of the fleet and what became of it. ``connection`` is None unless its agent is up."""

    index: int
    outcome: HostOutcome
    connection: Connection | None = None
    hello: Hello | None = None
    address: str = ""
    port: int = 0
    stamps: str | None = None
    """The best level that its probe port was granted."""
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)
    """Its own, so that a probe that reaches another host than was meant is not answered."""

    @property
    def up(self) -> bool:
        """Whether it can probe and be probed."""
        return self.outcome.status == "ok" and self.port > 0


class Fleet:
    """All agents of one scan. ``end`` must always be called."""

    def __init__(
        self,
        hosts: Sequence[Host],
        launcher: Launcher,
        options: ScanOptions,
        on_event: OnEvent,
        clock: Callable[[], float],
    ) -> None:
        self.members = [Member(index=i, outcome=HostOutcome(host=host)) for i, host in enumerate(hosts)]
        self._by_name = {member.outcome.host.name: member for member in self.members}
        self._launcher = launcher
        self._options = options
        self._on_event = on_event
        self._clock = clock
        self.on_failed: Callable[[Member], None] | None = None
        """Told of each host that is lost, for the journal."""
        self._channels: list[Channel] = []
        self._ending = False

    @property
    def alive(self) -> frozenset[int]:
        """Indices of the hosts that are up now."""
        return frozenset(member.index for member in self.members if member.up)

    async def start(self) -> None:
        """Bring the agents up. Hosts that fail have a reason afterwards; raises InputError only."""
        began = self._clock()
        options = self._options
        payload = new_payload(lease_s=options.lease_s, python=options.python, setup=options.setup)
        hosts = [member.outcome.host for member in self.members]
        self._launcher.check(hosts)
        check_given(hosts, options)
        launch = self._launcher.launch(hosts, payload, options.start_timeout_s)
        greetings = []
        try:
            async for outcome in launch:
                if isinstance(outcome, LaunchFailure):
                    self.fail(self._by_name[outcome.host.name], "unreachable", outcome.reason)
                else:
                    self._channels.append(outcome)
                    greetings.append(asyncio.create_task(self._greet(outcome)))
            await asyncio.gather(*greetings)
        finally:
            for task in greetings:
                task.cancel()
            aclose = getattr(launch, "aclose", None)
            if aclose is not None:
                await aclose()
        await self._open_ports()
        self._on_event(AgentsUp(up=len(self.alive), total=len(hosts), elapsed_s=self._clock() - began))

    async def run(
        self, work: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event | None
    ) -> tuple[bool, float]:
        """Bring the agents up, do ``work``, and leave no agent, however that ends.

        Whether ``stop`` (None: it cannot be) was set first, and the seconds since the agents were up.
        """
        began = self._clock()

        async def whole() -> None:
            nonlocal began
            await self.start()
            began = self._clock()
            await work()

        try:
            stopped = await until_stopped(whole(), stop)
            return stopped, self._clock() - began
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await self.end()
            self.kill()

    def fail(self, member: Member, status: HostStatus, reason: str) -> None:
        """Note that a host is out, once."""
        if member.outcome.status != "ok" or self._ending:
            return
        reason = one_line(reason)
        member.outcome = member.outcome.changed(status=status, reason=reason)
        self._on_event(HostFailed(host=member.outcome.host.name, reason=reason))
        if self.on_failed is not None:
            self.on_failed(member)

    async def end(self) -> None:
        """End every agent and wait for it; what does not go in half a second is killed."""
        self._ending = True
        try:
            for member in self.members:
                if member.connection is not None:
                    await member.connection.stop()
            for channel in self._channels:
                channel.close()
            await asyncio.gather(*(channel.reap(END_GRACE_S) for channel in self._channels))
        finally:
            self.kill()

    def kill(self) -> None:
        """End every agent at once; needs no event loop."""
        for channel in self._channels:
            channel.kill()

    async def _greet(self, channel: Channel) -> None:
        member = self._by_name[channel.host.name]
        connection = Connection(channel, lease_s=self._options.lease_s, silence_s=self._options.silence_s)

        def lost(reason: str) -> None:
            self.fail(member, "failed", reason)

        try:
            member.hello = await connection.start(self._options.start_timeout_s, lost)
        except AgentLostError as error:
            channel.kill()
            self.fail(member, "unreachable", str(error))
            return
        member.connection = connection
        member.outcome = member.outcome.changed(agent=member.hello.agent)
        up = sum(m.connection is not None for m in self.members)
        self._on_event(HostUp(host=channel.host.name, up=up, total=len(self.members)))

    def _leave_out_duplicates(self) -> None:
        """A machine under two names keeps the first: with itself it would look like the nearest neighbour."""
        if self._launcher.local:
            return
        hosts = [member.outcome.host for member in self.members]
        hellos = [m.hello if m.outcome.status == "ok" else None for m in self.members]
        for index, first in find_duplicates(hosts, hellos).items():
            member, hello = self.members[index], hellos[index]
            said = "" if hello is None else f" (both answer as {hello.agent.hostname})"
            self.fail(member, "failed", f"it is the machine that {hosts[first].name} is already{said}")

    async def _open_ports(self) -> None:
        self._leave_out_duplicates()
        reports = {
            m.outcome.host.name: m.hello.addresses
            for m in self.members
            if m.hello is not None and m.outcome.status == "ok"
        }
        hosts = [member.outcome.host for member in self.members]
        chosen = await asyncio.to_thread(
            choose_addresses, hosts, reports, self._options, local=self._launcher.local
        )
        for name, reason in chosen.failures.items():
            self.fail(self._by_name[name], "failed", reason)
        for text in chosen.notes:
            self._on_event(ScanWarning(text=text))
        opening = []
        for name, address in chosen.addresses.items():
            member = self._by_name[name]
            member.address = address
            host = member.outcome.host.model_copy(update={"address": address})
            member.outcome = member.outcome.changed(host=host)
            opening.append(self._open(member))
        await asyncio.gather(*opening)

    async def _open(self, member: Member) -> None:
        if member.connection is None:
            return
        limit_s = open_timeout_s(len(self.members))
        try:
            answer = await member.connection.request(
                {
                    "type": "open",
                    "token": member.token.hex(),
                    "address": member.address,
                    "ports": list(self._options.port_range),
                    "stamps": self._options.stamps,
                },
                limit_s,
            )
            member.port = opened_port(answer, self._options.port_range)
        except (AgentLostError, TaskFailedError, ProtocolError) as error:
            self.fail(member, "failed", f"cannot open a probe port: {error}")
            return
        except TimeoutError:
            self.fail(member, "failed", f"its agent opened no probe port within {limit_s:.0f} s")
            return
        member.stamps = text_field(answer, "stamps")
        if member.stamps != self._options.stamps:
            name = member.outcome.host.name
            self._on_event(ScanWarning(text=f"{name} offers {text_field(answer, 'stamps')} stamps only"))


def open_timeout_s(hosts: int) -> float:
    """How long an agent may take over a port: all are asked at once, and a busy controller reads a thousand answers."""
    return OPEN_TIMEOUT_S + OPEN_A_HOST_S * hosts


def opened_port(answer: dict[str, Any], port_range: tuple[int, int], *, type_: str = "opened") -> int:
    """The port that an agent opened, checked against the range it was given: its peers probe that port.

    Raises ProtocolError.
    """
    low, high = (1, 65535) if port_range == (0, 0) else port_range
    port = whole_field(answer, "port", 65535)
    if answer.get("type") != type_ or not low <= port <= high:
        raise ProtocolError(f"a port outside {low}-{high}")
    return port
