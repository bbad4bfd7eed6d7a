"""Hostfiles of Open MPI, in and out, and the command line under which mpirun keeps their order.

What Open MPI 4.1.4 and 5.0.11 do, tried with both:

- ``--map-by seq`` alone keeps the order in every case. By slot, the default, 4.1 moves the launching host to
  rank 0 when it is in the file; 5.0 keeps the order.
- seq takes one rank from each line, regardless of ``slots=``, and stops when lines are fewer than ranks. So
  a host of several ranks is written on as many lines, and those lines have no ``slots=``: listing a
  host twice with ``slots=`` is refused. A host listed once without ``slots=`` counts as many slots as
  it has cores, so a host of one rank is written ``slots=1``.
- without ``--bind-to none`` 5.0 stops where ranks outnumber cores, and both pin a rank to one core or socket.
- a line with ``max_slots=`` and no ``slots=`` counts as so many slots, on the first line of its host.
- what it makes of names is in core/openmpi_names.py: some are refused here, and some need one option more,
  which the file's comment and the command of ``export`` give.
- CR LF line ends are a parse error of mpirun's; the reader here accepts them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_SLOTS, Host, check_hosts, make_host
from netprobe.core.openmpi_names import name_fault, naming_flags, short_name, token_fault
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.ranks import argument_path, places_of, slots_of
from netprobe.formats.hostfiles.repeated import Listed, content_lines, slots_number

ORDER = (
    "mpirun keeps it with --map-by seq --bind-to none; by slot, the default, Open MPI 4.1 moves the launching host to "
    "rank 0"
)
LAUNCH_FLAGS = ("--map-by", "seq", "--bind-to", "none")
SLOTS_KEYS = frozenset({"slots", "slot", "cpu", "cpus", "count"})
MAX_SLOTS_KEYS = frozenset({"max_slots", "max-slots", "slots_max", "slots-max"})
USER_KEYS = frozenset({"username", "user_name", "user-name"})
_PAIR = re.compile(r"\s*([A-Za-z_-]+)\s*=\s*([^\s=]+)(?=\s|$)")
_HOST = re.compile(r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<name>\S+)")


def openmpi_command(hostfile: str, ranks: int, program: Sequence[str] = ()) -> list[str]:
    """The argv that starts ``ranks`` processes in the order of ``hostfile`` (Open MPI 4.1 and 5)."""
    return ["mpirun", "--hostfile", argument_path(hostfile), "-np", str(ranks), *LAUNCH_FLAGS, *program]


def openmpi_ranks(
    hosts: Sequence[Host], *, slots: int | None = None, by_node: bool = False
) -> tuple[str, ...]:
    """Launcher name of the host of each rank, rank 0 first: what mpirun will do with the hostfile.

    ``slots`` is the ranks of every host; by default a host has its own ``slots``, or one. Raises InputError
    for a number of slots that is out of range.
    """
    counts = slots_of(hosts, slots)
    return tuple(hosts[at].launcher_name for at, _ in places_of(counts, by_node=by_node))


def write_openmpi_hostfile(hosts: Sequence[Host], *, slots: int | None = None, by_node: bool = False) -> str:
    """The hostfile for ``hosts`` in rank order; a host's ranks are neighbours, or round-robin ``by_node``.

    Raises InputError for a launcher name that mpirun would misread, before anything is written.
    """
    check_hosts(hosts)
    names = [host.launcher_name for host in hosts]
    check_openmpi_names(names)
    ranks = openmpi_ranks(hosts, slots=slots, by_node=by_node)
    counts = Counter(ranks)
    flags = " ".join((*LAUNCH_FLAGS, *naming_flags(names)))
    lines = [
        "# Open MPI hostfile, rank 0 first, one line per rank. mpirun keeps this order only with these flags:",
        f"#   mpirun --hostfile THIS_FILE -np {len(ranks)} {flags} PROGRAM",
    ]
    lines += [f"{name} slots=1" if counts[name] == 1 else name for name in ranks]
    return "".join(f"{line}\n" for line in lines)


def read_openmpi_hostfile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a hostfile, in the order of their first lines.

    ``slots`` of a host listed twice or more are added up, a line without ``slots=`` counting one; a host
    listed once without it has its ``max_slots``, or None. ``user@host`` and ``username=`` become the target
    ``user@host``. Raises HostsError naming the line, also for a name that mpirun reads as another.
    """
    entries: dict[str, _Entry] = {}
    for number, content in content_lines(text, source=source):
        _read_line(content, entries, source=source, line=number)
    return check_hosts([entry.host(source=source) for entry in entries.values()], source=source)


@dataclass(kw_only=True)
class _Entry(Listed):
    most: int | None = None


def _read_line(content: str, entries: dict[str, _Entry], *, source: str | None, line: int) -> None:
    word, *_ = content.split(maxsplit=1)
    rest = content[len(word) :]
    if word.startswith(("+", "^")):
        what = "a relative host" if word[0] == "+" else "an exclusion"
        raise HostsError(f"{word[:60]!r} is {what}, which names no host by itself", source=source, line=line)
    if re.fullmatch(r"[^:]+:\d+", word):
        raise HostsError(
            f"{word[:60]!r} is MPICH's HOST:SLOTS: Open MPI writes HOST slots=N", source=source, line=line
        )
    if "=" in word or rest.lstrip().startswith("="):
        raise HostsError(f"{content[:60]!r} does not begin with a host", source=source, line=line)
    match = _HOST.fullmatch(word)
    user, name = (match["user"], match["name"]) if match else (None, word)
    if name not in entries:
        make_host(name, source=source, line=line)
    slots, most, user = _read_pairs(rest, user, source=source, line=line)
    if fault := token_fault(name):
        raise HostsError(f"mpirun would misread the host {name!r}: {fault}", source=source, line=line)
    first = name not in entries
    entry = entries.setdefault(name, _Entry(name=name, line=line))
    entry.add(most if first and slots is None else slots, user, source=source, line=line)
    entry.most = most if entry.most is None else entry.most
    if entry.most is not None and entry.stated and entry.slots > entry.most:
        raise HostsError(
            f"host {name!r} has {entry.slots} slots and max_slots={entry.most}", source=source, line=line
        )


def _read_pairs(
    rest: str, user: str | None, *, source: str | None, line: int
) -> tuple[int | None, int | None, str | None]:
    """Slots, max_slots and user of the ``key=value`` pairs behind a host; blanks may surround ``=``."""
    found: dict[str, str] = {}
    at = 0
    while rest[at:].strip():
        match = _PAIR.match(rest, at)
        if not match:
            raise HostsError(f"{rest[at:].strip()[:60]!r} is not KEY=VALUE", source=source, line=line)
        key = match[1]
        kind = "slots" if key in SLOTS_KEYS else "max_slots" if key in MAX_SLOTS_KEYS else key
        kind = "username" if key in USER_KEYS else kind
        if kind not in ("slots", "max_slots", "username"):
            known = "slots, max_slots, username"
            raise HostsError(f"unknown key {key[:60]!r}: known are {known}", source=source, line=line)
        if kind in found or (kind == "username" and user is not None):
            raise HostsError(f"{kind} is given twice", source=source, line=line)
        found[kind] = match[2]
        at = match.end()
    if "username" in found and not re.fullmatch(r"[A-Za-z0-9._][A-Za-z0-9._-]*", found["username"]):
        raise HostsError(f"{found['username'][:60]!r} is not a valid username", source=source, line=line)
    slots, most = (
        _number(found[key], key, source=source, line=line) if key in found else None
        for key in ("slots", "max_slots")
    )
    return slots, most, found.get("username", user)


def _number(value: str, key: str, *, source: str | None, line: int) -> int:
    number = slots_number(value)
    if number is None:
        raise HostsError(
            f"{key}={value[:20]!r} is not a whole number from 1 to {MAX_SLOTS}", source=source, line=line
        )
    return number


def check_openmpi_names(names: Sequence[str]) -> None:
    """Raise InputError for a name that mpirun would misread, or could not tell from another."""
    seen: dict[str, str] = {}
    for name in names:
        if fault := name_fault(name):
            raise InputError(
                f"mpirun would misread the launcher name {name!r} in a hostfile ({fault}): give the host another "
                "launcher_name="
            )
        short = short_name(name)
        if short in seen:
            twice = seen[short] == name
            raise InputError(
                f"two hosts have the launcher name {name!r}: give them others"
                if twice
                else f"mpirun cuts names at the first dot, and takes {seen[short]!r} and {name!r} for one "
                "host: give them launcher_name="
            )
        seen[short] = name


FORMAT = Format(
    name="openmpi",
    summary="hostfile of Open MPI's mpirun (for --map-by seq)",
    write=write_openmpi_hostfile,
    write_by_node=partial(write_openmpi_hostfile, by_node=True),
    read=read_openmpi_hostfile,
    command=openmpi_command,
    naming_flags=naming_flags,
    order=ORDER,
    file="hostfile",
)
