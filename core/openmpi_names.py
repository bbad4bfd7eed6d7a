"""Names of hosts as Open MPI's mpirun reads them: in a hostfile, and in the list of its daemons.

Source: the lexer of hostfiles, the same in 4.1 and 5 (orte, later prrte: util/hostfile/hostfile_lex.l), and what
mpirun 4.1.4 and 5.0 dialled when each kind of name was tried. A number is read as a C int, so ``007`` is ``7``. A word
of the format ends the file. A name is cut at its first dot unless the resolver takes it for an address. What means
this machine is renamed to its own name, and then not found again by ``--map-by seq``. And 4.1 packs the names of
its daemons into a pattern that has room for letters, digits, ``.`` and ``-`` only: other names need ``--mca regx
naive``, which 5 does not need and accepts.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

WORDS = frozenset(
    {"cpu", "count", "slot", "slots", "rank", "port", "username", "user-name", "user_name", "boards"}
    | {"sockets", "sockets_per_board", "sockets-per-board", "cores", "cores_per_socket", "cores-per-socket"}
    | {f"{what}{sep}max" for what in ("slots", "cpu", "count") for sep in "-_"}
    | {f"max{sep}{what}" for what in ("slots", "cpu", "count") for sep in "-_"}
)
"""The words of a hostfile, none of which can be a host's name."""
NAIVE = ("--mca", "regx", "naive")
"""What makes mpirun 4.1 start daemons on hosts with any names; 5 accepts it."""
MAX_INT = 2**31 - 1
_TOKEN = re.compile(r"[A-Za-z0-9_-]+|[A-Za-z0-9][A-Za-z0-9_.-]*")
_PACKED = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_LOCAL = (socket.inet_aton("0.0.0.0"), socket.inet_aton("127.0.0.1"))


def token_fault(name: str) -> str | None:
    """How mpirun would misread a name in a hostfile; None where it reads the name."""
    if name.lower() in WORDS:
        return "it is a word of the hostfile's format"
    if ":" in name:
        return None if _is_ipv6(name) else "a ':' is read only in an IPv6 address of hexadecimal groups"
    if not _TOKEN.fullmatch(name) or name.endswith("."):
        return "a name begins with a letter or digit, and does not end with '.'"
    if name.isdigit() and str(min(int(name), MAX_INT)) != name:
        return f"it would be read as the number {_c_int(name)}"
    return None


def name_fault(name: str) -> str | None:
    """Why mpirun would not start a rank on the host of that name in a hostfile; None where it would."""
    if fault := token_fault(name):
        return fault
    if ":" in name:
        address = ipaddress.IPv6Address(name)
        if address.is_link_local:
            return "a link-local address needs its interface, for which a hostfile has no form"
        return "it means the launching machine" if _means_itself(address) else None
    if short_name(name) == "localhost" or _number(name) in _LOCAL or _number(short_name(name)) in _LOCAL:
        return "it means the launching machine, which mpirun then calls by another name"
    return None


def short_name(name: str) -> str:
    """What mpirun calls a host: the name up to its first dot, in lower case; an IP address as it is."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.partition(".")[0].lower()


def naming_flags(names: Iterable[str]) -> tuple[str, ...]:
    """The options with which mpirun starts daemons on hosts of these names."""
    return () if all(_PACKED.fullmatch(name) for name in names) else NAIVE


def _is_ipv6(name: str) -> bool:
    try:
        ipaddress.IPv6Address(name)
    except ValueError:
        return False
    return "." not in name and "%" not in name


def _means_itself(address: ipaddress.IPv6Address) -> bool:
    return address.is_loopback or address.is_unspecified


def _number(name: str) -> bytes | None:
    """The IPv4 address that a resolver makes of a name of numbers, such as 0 or 0x7f.1; None for other names."""
    try:
        return socket.inet_aton(name)
    except OSError:
        return None


def _c_int(digits: str) -> int:
    """What atol and a conversion to int make of digits, on machines with 64-bit longs."""
    low = min(int(digits), 2**63 - 1) & 0xFFFFFFFF
    return low - (1 << 32) if low > MAX_INT else low
