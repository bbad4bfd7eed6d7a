"""Detects the format of a text, and refuses it where two formats would give different hosts.

The hosts file of netprobe is tried first. Another format is considered only where a text shows signs that no
other has: a key, a user or a comment of Open MPI's, the header comment of an MPICH machinefile, a section or a
variable of an Ansible inventory. What would be read wrongly is refused: the ``HOST:SLOTS`` of MPICH would pass
for the name of a host, and a rankfile for a list.
"""

from __future__ import annotations

import re

from netprobe.core.errors import HostsError
from netprobe.core.hosts import Host, is_ip_address, parse_hosts_text, text_lines
from netprobe.formats.host_lists.ansible import read_ansible_inventory
from netprobe.formats.host_lists.ansible_structured import looks_like_yaml_inventory, read_inventory
from netprobe.formats.host_lists.json_list import read_json_hosts
from netprobe.formats.host_lists.pbs import read_pbs_nodefile
from netprobe.formats.hostfiles.mpich import read_mpich_machinefile
from netprobe.formats.hostfiles.openmpi import MAX_SLOTS_KEYS, SLOTS_KEYS, USER_KEYS, read_openmpi_hostfile

NETPROBE = "netprobe"
_HOST_SLOTS = re.compile(r"[^:\s]+:\d+")
_RANK_LINE = re.compile(r"rank\s+\d+\s*=", re.IGNORECASE)
_OPENMPI_COMMENT = re.compile(r"open\s*-?mpi", re.IGNORECASE)
_ONLY_OPENMPI = SLOTS_KEYS - {"slots"} | MAX_SLOTS_KEYS | USER_KEYS
_OPENMPI_USER = re.compile(r"[A-Za-z0-9._-]+@\S+(?:\s|$)")
_OPENMPI_KEY = re.compile(rf"\s(?:(?:{'|'.join(sorted(_ONLY_OPENMPI))})\s*=|slots\s+=|slots=\s)")
_OUR_KEY = re.compile(r"\s(?:target|address|launcher_name|label\.[^\s=]+)=")
_MPICH_COMMENT = re.compile(r"#.*\b(?:mpich|hydra|intel mpi)\b.*\b(?:machine|host)file\b", re.IGNORECASE)
_ANSIBLE_SECTION = re.compile(r"\[[^:\]\s]+(?::(?:children|vars|hosts))?\]\s*(?:#.*)?")
_ANSIBLE_KEY = re.compile(r"\bansible_\w+\s*=")


def read_hosts_text(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a text, in any format that it can be recognised by.

    Raises HostsError as the likelier format would, or naming both formats when two read it differently.
    """
    text = text.removeprefix("\ufeff")
    if _looks_like_json(text):
        return read_json_hosts(text, source=source)
    if looks_like_yaml_inventory(text):
        return read_inventory(text, source=source)
    for number, line in enumerate(text_lines(text), start=1):
        if _RANK_LINE.match(line.strip()):
            raise HostsError(
                "is a line of an MPI rankfile: give a hosts file, or rankfile:FILE",
                source=source,
                line=number,
            )
    readings: dict[str, tuple[Host, ...]] = {}
    faults: dict[str, HostsError] = {}
    for name, shows, read in (
        (NETPROBE, None, _read_ours),
        ("openmpi", looks_like_openmpi, read_openmpi_hostfile),
        ("mpich", looks_like_mpich, read_mpich_machinefile),
        ("ansible", looks_like_ansible, read_ansible_inventory),
    ):
        if shows is None or shows(text):
            try:
                readings[name] = read(text, source=source)
            except HostsError as error:
                faults[name] = error
    if not readings:
        foreign = [fault for name, fault in faults.items() if name != NETPROBE]
        raise foreign[0] if len(foreign) == 1 else _with_hint(faults[NETPROBE], text)
    (first, hosts), *others = readings.items()
    for other, different in others:
        if different != hosts:
            raise HostsError(
                f"can be read as {first} and as {other}, with different hosts: say which, as in "
                f"{first}:FILE or {other}:FILE",
                source=source,
            )
    return hosts


def _looks_like_json(text: str) -> bool:
    """Whether a text is an object or a list; a section of an inventory, ``[web]``, begins like a list too."""
    start = text.lstrip()
    return start.startswith("{") or re.match(r"\[\s*(?:[\"{]|\]\s*$)", start) is not None


def refuse_host_slots(hosts: tuple[Host, ...], *, source: str | None) -> None:
    """Refuse names that are a host and a number of slots, or a port, or a list joined by colons. Raises HostsError."""
    for host in hosts:
        for value in (host.name, host.address or ""):
            if _HOST_SLOTS.fullmatch(value):
                name, _, slots = value.partition(":")
                raise HostsError(
                    f"{value!r} is MPICH's HOST:SLOTS (or HOST:PORT), not a host: "
                    f"write '{name} slots={slots}', or give the file as mpich:FILE",
                    source=source,
                )
            if ":" in value and not is_ip_address(value):
                raise HostsError(
                    f"{value[:60]!r} is neither a name nor an IPv6 address: a list of LSF's is read as lsf:LIST or "
                    "lsf:FILE, and hosts in a list of netprobe's are separated by commas",
                    source=source,
                )


def looks_like_openmpi(text: str) -> bool:
    """Whether a text has what only Open MPI's hostfiles have, and nothing that only our hosts files have."""
    found = False
    for line in text_lines(text) if any(sign in text for sign in "#@=") else ():
        content, _, comment = line.partition("#")
        content = content.strip()
        if _OUR_KEY.search(content):
            return False
        found = found or bool(
            _OPENMPI_COMMENT.search(comment) or _OPENMPI_USER.match(content) or _OPENMPI_KEY.search(content)
        )
    return found


def looks_like_mpich(text: str) -> bool:
    """Whether a comment says that a text is a machinefile: its lines alone could be hosts with ports."""
    return "#" in text and any(_MPICH_COMMENT.match(line[:200]) for line in text_lines(text))


def looks_like_ansible(text: str) -> bool:
    """Whether a text has a section or a variable of an INI inventory."""
    if "[" not in text and "ansible_" not in text:
        return False
    lines = [line.strip() for line in text_lines(text)]
    return any(
        _ANSIBLE_SECTION.fullmatch(line) or _ANSIBLE_KEY.search(line.partition("#")[0]) for line in lines
    )


def _with_hint(fault: HostsError, text: str) -> HostsError:
    """The fault of our own reader; where a text could be a nodefile, how to say so."""
    try:
        hosts = read_pbs_nodefile(text)
    except HostsError:
        return fault
    if all(host.slots == 1 for host in hosts):
        return fault
    hinted = HostsError(f"{fault} (a nodefile with a line a slot is read as pbs:FILE)")
    hinted.source, hinted.line = fault.source, fault.line
    return hinted


def _read_ours(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    hosts = parse_hosts_text(text, source=source)
    refuse_host_slots(hosts, source=source)
    return hosts
