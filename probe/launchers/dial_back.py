"""Launchers that start all agents with one command and let them dial back."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from netprobe.core.hosts import Host
from netprobe.probe.launchers.bootstrap import Payload
from netprobe.probe.launchers.diagnose import explain
from netprobe.probe.launchers.exec_launcher import SPARE_DESCRIPTORS, allow_descriptors
from netprobe.probe.launchers.launch import Channel, LaunchFailure, NoiseError, skip_to_marker
from netprobe.probe.launchers.listen_address import ListenAt, routed_address
from netprobe.probe.launchers.listener import MAX_STRANGERS, DialListener, Invitation
from netprobe.probe.launchers.shared_process import DialChannel, SharedProcess, lines_naming

MAX_LAUNCHES = 3
"""A host that makes the launch of all fail (a dead daemon) is left out of the next one."""
LOOK_S = 0.02
LAST_CALL_S = 0.5
"""How long after the command's end an agent may still be on its way."""
HOLD_S = 2.0
"""How long agents that are in wait for the others: some engines end all when one cannot be started."""
MARKER_S = 5.0


class DialBackLauncher(abc.ABC):
    """The part that launchers with one command for all hosts share. Implements ``launch.Launcher``."""

    local = False
    python = "python3"
    env: dict[str, str] | None = None
    variables: tuple[str, ...] = ()
    """Environment variables by which the engine tells a host which one it is."""

    def __init__(self, *, listen: ListenAt | None = None) -> None:
        self.listen = listen

    @abc.abstractmethod
    def check(self, hosts: Sequence[Host]) -> None:
        """Raise InputError for what cannot work, before anything is started."""
        ...

    @abc.abstractmethod
    def argv(self, hosts: Sequence[Host], command: Sequence[str]) -> list[str]:
        """The argument vector that runs ``command`` once on each host, with one standard input for all."""
        ...

    @abc.abstractmethod
    def identify(self, names: Mapping[str, str], hosts: Sequence[Host]) -> Host | None:
        """Which of the hosts of that launch an agent with these names is on."""
        ...

    def lines_about(self, output: str, host: Host) -> list[str]:
        """What the command and its agents said of one host."""
        return lines_naming(output.splitlines(), {host.name, host.target, host.launcher_name})

    def blamed(self, output: str, hosts: Sequence[Host]) -> list[Host]:
        """The hosts because of which the command ended early: by default all that it speaks of."""
        return [host for host in hosts if self.lines_about(output, host)]

    def gone(self, _output: str, _hosts: Sequence[Host]) -> list[Host]:
        """Hosts whose agent has ended, by what the command says while it runs."""
        return []

    async def launch(
        self, hosts: Sequence[Host], payload: Payload, timeout_s: float
    ) -> AsyncIterator[Channel | LaunchFailure]:
        """Start all agents; what does not dial back within ``timeout_s`` fails with what was said of it."""
        self.check(hosts)
        allow_descriptors(len(hosts) + MAX_STRANGERS + SPARE_DESCRIPTORS)
        at = self.listen or ListenAt(await asyncio.to_thread(routed_address, hosts))
        listener = DialListener()
        deadline = asyncio.get_running_loop().time() + timeout_s
        launches: list[_Launch] = []
        try:
            await listener.start(at.address, at.port)
            address = listener.address
            if address in ("0.0.0.0", "::"):
                address = await asyncio.to_thread(routed_address, hosts)
            waiting = list(hosts)
            while waiting:
                one = _Launch(self, waiting, payload, listener, deadline)
                launches.append(one)
                async for outcome in one.run(address, last=len(launches) == MAX_LAUNCHES):
                    yield outcome
                waiting = one.again
        finally:
            await listener.close()
            for one in launches:
                one.end()


class _Launch:
    """One run of the command. ``again`` are the hosts that it failed through no fault of their own."""

    def __init__(
        self,
        launcher: DialBackLauncher,
        hosts: Sequence[Host],
        payload: Payload,
        listener: DialListener,
        deadline: float,
    ) -> None:
        self.again: list[Host] = []
        self._launcher = launcher
        self._hosts = list(hosts)
        self._payload = payload
        self._listener = listener
        self._deadline = deadline
        self._waiting = {host.name: host for host in hosts}
        self._held: list[DialChannel] = []
        self._yielded: set[DialChannel] = set()
        self._shared: SharedProcess | None = None
        self._command = payload.command(launcher.python, announces=False)

    async def run(self, address: str, *, last: bool) -> AsyncIterator[Channel | LaunchFailure]:
        """Start the command and take in who dials back."""
        loop = asyncio.get_running_loop()
        invitation = Invitation(identify=self._identify, variables=self._launcher.variables)
        self._listener.invite(invitation)
        left = max(0.1, self._deadline - loop.time())
        stream = self._payload.stream(invitation.first_frame(address, self._listener.port, left))
        argv = self._launcher.argv(self._hosts, self._command)
        try:
            self._shared = await SharedProcess.open(
                argv, stream, self._launcher.env, self._launcher.lines_about
            )
        except OSError as error:
            for host in self._hosts:
                yield LaunchFailure(host=host, reason=f"cannot run {argv[0]!r}: {error.strerror}")
            return
        ended_at: float | None = None
        moved_at = loop.time()
        while self._waiting and loop.time() < self._deadline:
            await asyncio.sleep(LOOK_S)
            if self._take_in(invitation):
                moved_at = loop.time()
            if self._shared.says_more():
                for host in self._launcher.gone(self._shared.output, list(self._waiting.values())):
                    yield self._failure(host, "its agent ended before it dialled back")
            if ended_at is None and self._shared.has_ended():
                ended_at = loop.time()
            if ended_at is not None and loop.time() - ended_at > LAST_CALL_S:
                break
            if self._held and ended_at is None and loop.time() - moved_at > self._hold_s:
                async for outcome in self._let_go():
                    yield outcome
        if ended_at is not None:
            await self._shared.read_up(LAST_CALL_S)
        self._take_in(invitation)
        if ended_at is not None:
            self._take_back()
            self._waive(last=last)
        async for outcome in self._let_go():
            yield outcome
        said = " and the command that starts it has ended" if ended_at is not None else ""
        for host in list(self._waiting.values()):
            yield self._failure(host, f"its agent did not dial back{said}")

    @property
    def _hold_s(self) -> float:
        return min(HOLD_S, self._payload.lease_s / 4)

    def end(self) -> None:
        """Cut what was never handed on, and end the command unless an agent still needs it."""
        for channel in [*self._held]:
            channel.kill()
        if self._shared is not None and not self._shared.channels:
            self._shared.kill()

    def _identify(self, names: Mapping[str, str]) -> Host | None:
        host = self._launcher.identify(names, self._hosts)
        # Taken out here and nowhere else, so a second agent of the same host finds nobody waiting.
        return None if host is None else self._waiting.pop(host.name, None)

    def _take_in(self, invitation: Invitation) -> bool:
        """Take in the agents that have proved themselves; whether there was one."""
        assert self._shared is not None
        before = len(self._held)
        while not invitation.arrivals.empty():
            channel = DialChannel(invitation.arrivals.get_nowait(), self._shared)
            channel.write(self._payload.config())
            self._held.append(channel)
        return len(self._held) > before

    async def _let_go(self) -> AsyncIterator[Channel | LaunchFailure]:
        """Hand on who is in, once each has answered like an agent."""
        held, self._held = self._held, []
        answers = [asyncio.create_task(self._answers(channel)) for channel in held]
        try:
            for channel, answer in zip(held, answers):
                reason = await answer
                if reason is None:
                    self._yielded.add(channel)
                    yield channel
                else:
                    channel.kill()
                    yield LaunchFailure(host=channel.host, reason=reason)
        finally:
            for answer in answers:
                answer.cancel()
            for channel in held:
                if channel not in self._yielded:
                    channel.kill()

    async def _answers(self, channel: DialChannel) -> str | None:
        """None when the agent's marker comes, else why it did not."""
        try:
            await asyncio.wait_for(skip_to_marker(channel.reader, self._payload.marker), MARKER_S)
        except (NoiseError, OSError):
            said = channel.diagnosis()
            return "the agent ended as soon as it had dialled back" + (f": {said}" if said else "")
        except (asyncio.TimeoutError, TimeoutError):
            return f"no answer from the agent within {MARKER_S:.0f} s of dialling back"
        return None

    def _take_back(self) -> None:
        """Agents that ended with their command wait again."""
        for channel in list(self._held):
            if channel.reader.at_eof() or channel.reader.exception() is not None:
                self._held.remove(channel)
                channel.kill()
                self._waiting[channel.host.name] = channel.host

    def _waive(self, *, last: bool) -> None:
        """Hosts that are not to blame for the command's end are tried again, when there are others."""
        assert self._shared is not None
        blamed = self._launcher.blamed(self._shared.output, list(self._waiting.values()))
        quiet = [host for host in self._waiting.values() if host not in blamed]
        if last or len(quiet) == len(self._hosts):
            return
        self.again = quiet
        for host in quiet:
            del self._waiting[host.name]

    def _failure(self, host: Host, cause: str) -> LaunchFailure:
        assert self._shared is not None
        self._waiting.pop(host.name, None)
        about = self._launcher.lines_about(self._shared.output, host)
        lines = about or [line for line in self._shared.output.splitlines() if line.strip(" -=*\t")]
        if not lines and self._listener.last_refusal:
            lines = [self._listener.last_refusal]
        said = explain(
            stderr="\n".join(lines),
            stdout="",
            code=None,
            target=host.target,
            python=self._command[0] if self._payload.setup is None else "python3",
            cause=cause,
        )
        return LaunchFailure(host=host, reason=said.reason)
