"""Launchers with one child process a host: any exec-like prefix, and this machine itself."""

from __future__ import annotations

import abc
import asyncio
import errno
import os
import random
import re
import resource
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import PurePath

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.probe.launchers.bootstrap import Payload
from netprobe.probe.launchers.diagnose import Diagnosis, explain, no_python
from netprobe.probe.launchers.launch import Channel, LaunchFailure, NoiseError
from netprobe.probe.launchers.process import ProcessChannel

DEFAULT_FAN_OUT = 16
DESCRIPTORS_PER_CHILD = 5
SPARE_DESCRIPTORS = 128
RETRY_DELAY_S = 0.4
LONGEST_DELAY_S = 3.0
MAX_PER_ROUTE = 8
"""Logins on their way at a time through one jump host: sshd's own limit begins at 10 (MaxStartups)."""
SHELL_PROGRAMS = frozenset({"ssh"})
"""Programs that join their arguments and hand them to a shell at the far end."""
STARTS_SHELL = (
    "nothing asked for its code, so none was sent: does a start-up file of the login shell run another shell (exec "
    "zsh in .bashrc, say)? Let it do so in interactive shells only"
)

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_KNOWN = ("name", "target", "address", "host")


class ChildLauncher(abc.ABC):
    """The part that all launchers with a process a host share. Implements ``launch.Launcher``."""

    local = False
    python = "python3"
    env: dict[str, str] | None = None

    def __init__(self, *, fan_out: int = DEFAULT_FAN_OUT) -> None:
        if not 1 <= fan_out <= 4096:
            raise InputError(f"a fan-out of {fan_out}: 1 to 4096 are allowed")
        self.fan_out = fan_out

    @abc.abstractmethod
    def argv(self, host: Host, command: Sequence[str]) -> list[str]:
        """The argument vector that runs ``command`` on ``host``."""
        ...

    def check(self, hosts: Sequence[Host]) -> None:  # noqa: B027 (nothing to check is a good answer)
        """Raise InputError for what cannot work, before anything is started."""

    async def route(self, _host: Host) -> str | None:
        """What the way to a host leads through and many others' ways do too; None for a way of its own."""
        return None

    def explain(
        self, host: Host, *, stderr: str, stdout: str, code: int | None, python: str, cause: str
    ) -> Diagnosis:
        """Why the command that should have started an agent ended."""
        return explain(
            stderr=stderr, stdout=stdout, code=code, target=host.target, python=python, cause=cause
        )

    async def why_silent(self, _host: Host) -> str:
        """The likely reason why the command of a host runs and never asks for the agent's code."""
        return STARTS_SHELL

    async def launch(
        self, hosts: Sequence[Host], payload: Payload, timeout_s: float
    ) -> AsyncGenerator[Channel | LaunchFailure, None]:
        """Start all agents, at most ``fan_out`` of them on their way at a time."""
        self.check(hosts)
        allow_descriptors(len(hosts) * DESCRIPTORS_PER_CHILD + SPARE_DESCRIPTORS)
        command = payload.command(self.python)
        gates = _Gates(self.fan_out)
        tasks = [asyncio.create_task(self._launch_one(h, command, payload, timeout_s, gates)) for h in hosts]
        yielded: set[int] = set()
        try:
            for future in asyncio.as_completed(tasks):
                outcome = await future
                yielded.add(id(outcome))
                yield outcome
        finally:
            for task in tasks:
                task.cancel()
            for left in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(left, ProcessChannel) and id(left) not in yielded:
                    left.kill()

    async def _launch_one(
        self, host: Host, command: Sequence[str], payload: Payload, timeout_s: float, gates: _Gates
    ) -> Channel | LaunchFailure:
        async with gates.looking_up:
            route = await self.route(host)
        # The narrow gate first: who waits for a jump host holds up nobody with another way.
        async with gates.of_route(route), gates.all:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + timeout_s
            delay_s = RETRY_DELAY_S
            while True:
                outcome = await self._try(host, command, payload, max(0.05, deadline - loop.time()))
                if not isinstance(outcome, Diagnosis):
                    return outcome
                wait_s = delay_s * random.uniform(0.5, 1.5)
                if not outcome.retry or loop.time() + wait_s >= deadline:
                    return LaunchFailure(host=host, reason=outcome.reason)
                await asyncio.sleep(wait_s)
                delay_s = min(2 * delay_s, LONGEST_DELAY_S)

    async def _try(
        self, host: Host, command: Sequence[str], payload: Payload, timeout_s: float
    ) -> ProcessChannel | Diagnosis:
        argv = self.argv(host, command)
        try:
            channel = await ProcessChannel.open(host, argv, self.env)
        except OSError as error:
            if argv[0] == command[0] and error.errno == errno.ENOENT:
                return no_python(command[0])
            return Diagnosis(f"cannot run {argv[0]!r}: {error.strerror}")
        try:
            await asyncio.wait_for(channel.handshake(payload), timeout_s)
            return channel
        except NoiseError as error:
            code = await channel.exit_code(1.0)
            channel.kill()
            return self.explain(
                host,
                stderr=channel.stderr,
                stdout=error.noise.decode("utf-8", "replace"),
                code=code,
                python=command[0],
                cause=str(error),
            )
        except (asyncio.TimeoutError, TimeoutError):
            channel.kill()
            said = channel.diagnosis()
            why = "" if channel.is_asked else f": {await self.why_silent(host)}"
            last = f" (last said: {said})" if said else ""
            return Diagnosis(f"no answer from the agent within {timeout_s:.0f} s{last}{why}")
        except BaseException:
            channel.kill()
            raise


class _Gates:
    """How many hosts may be on their way at a time: in all, and by each route."""

    def __init__(self, fan_out: int) -> None:
        self.all = asyncio.Semaphore(fan_out)
        self.looking_up = asyncio.Semaphore(fan_out)
        self._width = min(fan_out, MAX_PER_ROUTE)
        self._routes: dict[str, asyncio.Semaphore] = {}

    def of_route(self, route: str | None) -> AbstractAsyncContextManager[object]:
        """The gate of a route; open for a way of one's own."""
        if route is None:
            return nullcontext()
        return self._routes.setdefault(route, asyncio.Semaphore(self._width))


class ExecLauncher(ChildLauncher):
    """An exec-like prefix such as ``ip netns exec {target}`` or ``kubectl exec -i {target} --``.

    The template is split as a shell would and never given to one. ``{name}``, ``{target}``, ``{address}``
    and ``{host}`` (the target) are replaced inside each word, so a value stays within its word. The agent's
    command follows as further words. Where it has to be one word that a shell will read, ``{command}``
    is replaced by it, quoted (``su -c {command} probe``); for a template that runs ``ssh`` that is done anyway.
    """

    def __init__(self, template: str, *, fan_out: int = DEFAULT_FAN_OUT) -> None:
        super().__init__(fan_out=fan_out)
        self.template = template
        try:
            self.words = shlex.split(template)
        except ValueError as error:
            raise InputError(f"--via {template!r}: {str(error).lower()}") from None
        if not self.words:
            raise InputError(
                "--via is empty: give ssh, local, or a template such as 'ip netns exec {target}'"
            )
        self.placeholders = {name for word in self.words for name in _PLACEHOLDER.findall(word)}
        unknown = sorted(self.placeholders - {*_KNOWN, "command"})
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in (*_KNOWN, "command"))
            raise InputError(f"--via {template!r}: unknown placeholder {{{unknown[0]}}}: known are {known}")

    def check(self, hosts: Sequence[Host]) -> None:
        """One command must reach one host, and its program must exist."""
        if len(hosts) > 1 and not self.placeholders & set(_KNOWN):
            raise InputError(
                f"--via {self.template!r} has no {{target}}: it would reach the same place for all "
                f"{len(hosts)} hosts"
            )
        if "address" in self.placeholders:
            without = [host.name for host in hosts if host.address is None]
            if without:
                raise InputError(
                    f"--via uses {{address}}, and host {without[0]!r} has none in the hosts file"
                )
        program = self.words[0]
        if PurePath(program).name in SHELL_PROGRAMS or "command" in self.placeholders:
            for host in hosts:
                if shlex.quote(host.target) != host.target:
                    raise InputError(
                        f"host {host.name!r}: a shell at the far end would read the target {host.target!r}"
                    )
        if "{" not in program and shutil.which(program) is None:
            raise InputError(f"--via {self.template!r}: no program {program!r} on this machine")

    def argv(self, host: Host, command: Sequence[str]) -> list[str]:
        """The words with the host's values filled in, then the command."""
        values = {
            "name": host.name,
            "target": host.target,
            "host": host.target,
            "address": host.address or "",
            "command": shlex.join(command),
        }
        argv = [_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in self.words]
        if "command" in self.placeholders:
            return argv
        if PurePath(argv[0]).name in SHELL_PROGRAMS:
            return [*argv, shlex.join(command)]
        return [*argv, *command]


class LocalLauncher(ChildLauncher):
    """All agents on this machine, each with a loopback address of its own."""

    local = True

    def __init__(self, *, fan_out: int = DEFAULT_FAN_OUT) -> None:
        super().__init__(fan_out=fan_out)
        self.python = shlex.quote(sys.executable or "python3")

    def argv(self, _host: Host, command: Sequence[str]) -> list[str]:
        """The command itself."""
        return list(command)


def allow_descriptors(needed: int) -> None:
    """Raise this process's limit of open files to ``needed``. Raises PlatformError when it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise PlatformError(
            f"{needed} open files are needed for so many hosts, and {hard} are allowed: raise 'ulimit -n'"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def environment(**extra: str) -> dict[str, str]:
    """This process's environment with something added."""
    return {**os.environ, **extra}
