"""Reading hosts from a file of any format that is known here.

The hosts file of netprobe is tried first. Only a file that shows itself to be Open MPI's (a key, a user or a
comment that only its hostfiles have) is read as one. What would be read wrongly is refused: the
``HOST:SLOTS`` of MPICH would pass for the name of a host, and a rankfile for a list.
"""

from __future__ import annotations

import re
from pathlib import Path

from netprobe.core import hosts as core_hosts
from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_FILE_BYTES, Host, parse_hosts_text, text_lines
from netprobe.formats.openmpi import MAX_SLOTS_KEYS, SLOTS_KEYS, USER_KEYS, read_openmpi_hostfile

_HOST_SLOTS = re.compile(r"[^:\s]+:\d+")
_RANK_LINE = re.compile(r"rank\s+\d+\s*=", re.IGNORECASE)
_OPENMPI_COMMENT = re.compile(r"open\s*-?mpi", re.IGNORECASE)
_ONLY_OPENMPI = SLOTS_KEYS - {"slots"} | MAX_SLOTS_KEYS | USER_KEYS
_OPENMPI_USER = re.compile(r"[A-Za-z0-9._-]+@\S+(?:\s|$)")
_OPENMPI_KEY = re.compile(rf"\s(?:(?:{'|'.join(sorted(_ONLY_OPENMPI))})\s*=|slots\s+=|slots=\s)")
_OUR_KEY = re.compile(r"\s(?:target|address|launcher_name|label\.[^\s=]+)=")


def load_hosts(argument: str) -> tuple[Host, ...]:
    """What ``--hosts`` takes: a file of any known format, or a list such as ``a,b`` or ``gpu[001-064]``.

    Raises HostsError, with the line, as the likelier format would.
    """
    text = _text_of(argument)
    if text is None:
        hosts = core_hosts.load_hosts(argument)
        _refuse_host_slots(hosts, source="--hosts")
        return hosts
    return read_hosts_text(text, source=argument)


def read_hosts_text(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a text of any known format."""
    text = text.removeprefix("\ufeff")
    for number, line in enumerate(text_lines(text), start=1):
        if _RANK_LINE.match(line.strip()):
            raise HostsError("is a line of an MPI rankfile: give a hosts file", source=source, line=number)
    try:
        hosts = parse_hosts_text(text, source=source)
    except HostsError:
        if not looks_like_openmpi(text):
            raise
        hosts = read_openmpi_hostfile(text, source=source)
    _refuse_host_slots(hosts, source=source)
    return hosts


def looks_like_openmpi(text: str) -> bool:
    """Whether a text has what only Open MPI's hostfiles have, and nothing that only our hosts files have."""
    found = False
    for line in text_lines(text):
        content, _, comment = line.partition("#")
        content = content.strip()
        if _OUR_KEY.search(content):
            return False
        found = found or bool(
            _OPENMPI_COMMENT.search(comment) or _OPENMPI_USER.match(content) or _OPENMPI_KEY.search(content)
        )
    return found


def _text_of(argument: str) -> str | None:
    """The text of the file that ``argument`` names; None when core should say what it is."""
    try:
        path = Path(argument)
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        return data.decode("utf-8-sig") if len(data) <= MAX_FILE_BYTES else None
    except (OSError, ValueError):
        return None


def _refuse_host_slots(hosts: tuple[Host, ...], *, source: str | None) -> None:
    for host in hosts:
        for value in (host.name, host.address or ""):
            if _HOST_SLOTS.fullmatch(value):
                name, _, slots = value.partition(":")
                raise HostsError(
                    f"{value!r} is MPICH's HOST:SLOTS (or HOST:PORT), not a host: "
                    f"write '{name} slots={slots}'",
                    source=source,
                )
