"""What each host of a job runs: the program with its rank and the address of rank 0."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats import slots_of
from netprobe.formats.hostfiles.torchrun import PORT

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PYTHON = re.compile(r"python[0-9.]*")
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_FLAGS = ("--standalone", "--module", "--no-python", "--run-path", "--help", "--virtual-local-rank")
"""torchrun's options without a value."""
_OURS = ("--nnodes", "--node-rank", "--nproc-per-node", "--rdzv-backend", "--master-addr", "--master-port")
_KNOWN = (*_OURS, *_FLAGS, "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--max-restarts", "--monitor-interval",
          "--start-method", "--role", "--log-dir", "--redirects", "--tee", "--local-addr", "--logs-specs",
          "--local-ranks-filter", "--event-log-handler", "--numa-binding", "--signals-to-handle")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one host runs: ``argv`` once for each of ``each``, with those variables besides ``env``."""

    host: Host
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    each: tuple[Mapping[str, str], ...] = ({},)


def parts_of(
    ranked: Sequence[Host],
    program: Sequence[str],
    *,
    env: Mapping[str, str],
    slots: int | None = None,
    port: int = PORT,
) -> tuple[Part, ...]:
    """One part a host, rank 0's first. Raises InputError for a program whose own options say another order.

    torchrun starts a host's ranks itself and gets options for that. Any other program is started once a slot, with
    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment.
    """
    check_program(program)
    counts = slots_of(ranked, slots)
    master = master_of(ranked)
    at = torchrun_in(program)
    if at is not None:
        return tuple(
            Part(
                host=host,
                env=env,
                argv=torchrun_words(
                    program,
                    at,
                    {
                        "--nnodes": str(len(ranked)),
                        "--node-rank": str(place),
                        "--nproc-per-node": str(counts[place]) if (slots or host.slots) else None,
                        "--rdzv-backend": "static",
                        "--master-addr": master,
                        "--master-port": str(port),
                    },
                ),
            )
            for place, host in enumerate(ranked)
        )
    shared = {"WORLD_SIZE": str(sum(counts)), "MASTER_ADDR": master, "MASTER_PORT": str(port)}
    parts, first = [], 0
    for host, count in zip(ranked, counts):
        each = tuple(
            {"RANK": str(first + local), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(count)}
            for local in range(count)
        )
        parts.append(Part(host=host, argv=tuple(program), env={**shared, **env}, each=each))
        first += count
    return tuple(parts)


def check_program(program: Sequence[str]) -> None:
    """Raises InputError for none, and for what no program can be given."""
    if not program or not program[0]:
        raise InputError("no program was given: netprobe launch PLAN -- PROGRAM ARGUMENTS")
    if any("\0" in word for word in program):
        raise InputError("a word of the program has a zero byte in it, which no program can be given")


def master_of(ranked: Sequence[Host]) -> str:
    """The address at which the others reach rank 0's host."""
    return ranked[0].address or ranked[0].launcher_name


def torchrun_in(program: Sequence[str]) -> int | None:
    """Where torchrun's own options begin in a program; None where it is another program.

    Words such as ``nice``, ``numactl --cpunodebind=0`` or ``env NAME=value`` may stand in front of it.
    """
    for first, command in enumerate(program):
        if PurePath(command).name == "torchrun":
            return first + 1
        if not _PYTHON.fullmatch(PurePath(command).name):
            continue
        for at, word in enumerate(program[first + 1 :], first + 1):
            if word == "-m":
                return at + 2 if program[at + 1 : at + 2] and program[at + 1] in _MODULES else None
            if not word.startswith("-"):
                return None
        return None
    return None


def torchrun_words(program: Sequence[str], at: int, ours: Mapping[str, str | None]) -> tuple[str, ...]:
    """The program with those of our options that it lacks. Raises InputError where one says another thing."""
    given = torchrun_options(program[at:])
    if "--standalone" in given:
        raise InputError(
            "torchrun --standalone is for one host alone, and takes no ranks from a plan: leave it out"
        )
    backend = given.get("--rdzv-backend")
    if backend not in (None, "static"):
        raise InputError(
            f"torchrun --rdzv-backend={backend} does not keep the plan's order (it sorts the hosts by name): leave it "
            "out, or give static"
        )
    for option in ("--nnodes", "--node-rank"):
        said = given.get(option)
        if said is not None and said not in (ours[option], f"{ours[option]}:{ours[option]}"):
            why = "the plan has another number of hosts" if option == "--nnodes" else "each host has its own"
            raise InputError(f"torchrun {option}={said}: {why}; leave it out, and it is put in")
    skipped = {"--master-addr", "--master-port"} if "--rdzv-endpoint" in given else set()
    added = [
        f"{option}={value}"
        for option, value in ours.items()
        if value is not None and option not in given and option not in skipped
    ]
    return (*program[:at], *added, *program[at:])


def torchrun_options(words: Sequence[str]) -> dict[str, str | None]:
    """torchrun's options up to the script, under their full names; it takes ``_`` for ``-``, and beginnings."""
    found: dict[str, str | None] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word, equals, value = words[at].partition("=")
        at += 1
        if word == "-m" or (word.startswith("-") and not word.startswith("--")):
            at += not (equals or word in ("-m", "-h") or len(word) > 2)
            continue
        name = word.replace("_", "-")
        fitting = [known for known in _KNOWN if known.startswith(name)]
        name = name if name in _KNOWN or len(fitting) != 1 else fitting[0]
        if name in _FLAGS:
            found[name] = None
            continue
        if not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        found[name] = value
    return found


def environment_of(given: Sequence[str], here: Mapping[str, str] | None = None) -> dict[str, str]:
    """``NAME=VALUE``, or ``NAME`` with the value that it has here. Raises InputError."""
    here = os.environ if here is None else here
    env: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise InputError(
                f"--env {word[:60]!r}: NAME or NAME=VALUE is needed, a name of letters, digits and _"
            )
        if not equals and name not in here:
            raise InputError(f"--env {name}: it is not set here: give {name}=VALUE")
        env[name] = value if equals else here[name]
    return env
