"""The addresses of this host, over rtnetlink (RTM_GETADDR), and the one its kernel prefers."""

from __future__ import annotations

import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RTM_NEWADDR, _RTM_GETADDR, _DUMP = 20, 22, 0x301
_NLMSG_DONE, _NLMSG_ERROR = 3, 2
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_SCOPE_UNIVERSE = 0
_TENTATIVE, _DEPRECATED = 0x40, 0x20
_PROBED = {int(socket.AF_INET): ("192.0.2.1", 9), int(socket.AF_INET6): ("2001:db8::1", 9)}


def list_addresses() -> list[dict[str, Any]]:
    """Global addresses as {address, prefix, interface, preferred}, IPv4 first, the preferred one first."""
    preferred = [_preferred(socket.AF_INET), _preferred(socket.AF_INET6)]
    try:
        found = _dump()
    except (OSError, struct.error):
        found = [{"address": a, "prefix": 128 if ":" in a else 32, "interface": ""} for a in preferred if a]
    for entry in found:
        entry["preferred"] = entry["address"] in preferred
    found.sort(key=lambda entry: (":" in entry["address"], not entry["preferred"]))
    return found


def _preferred(family: int) -> str | None:
    """The source address of the default route: connecting a UDP socket sends nothing."""
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        return None
    try:
        sock.connect(_PROBED[family])
        return str(sock.getsockname()[0])
    except OSError:
        return None
    finally:
        sock.close()


def _dump() -> list[dict[str, Any]]:
    found = []  # type: list[dict[str, Any]]
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    try:
        sock.settimeout(2.0)
        sock.sendto(struct.pack("=IHHIIBxxxI", 24, _RTM_GETADDR, _DUMP, 1, 0, 0, 0), (0, 0))
        while True:
            data = sock.recv(1 << 16)
            while len(data) >= 16:
                length, kind, _flags, _seq, _pid = struct.unpack_from("=IHHII", data)
                if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < 16:
                    return found
                if kind == _RTM_NEWADDR:
                    entry = _parse(data[16:length])
                    if entry is not None:
                        found.append(entry)
                data = data[(length + 3) & ~3 :]
    finally:
        sock.close()


def _parse(body: bytes) -> dict[str, Any] | None:
    family, prefix, flags, scope, index = struct.unpack_from("=BBBBI", body)
    if family not in _PROBED or scope != _SCOPE_UNIVERSE or flags & (_TENTATIVE | _DEPRECATED):
        return None
    attributes = {}
    body = body[8:]
    while len(body) >= 4:
        length, kind = struct.unpack_from("=HH", body)
        if length < 4:
            break
        attributes[kind] = body[4:length]
        body = body[(length + 3) & ~3 :]
    raw = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
    if not raw:
        return None
    try:
        interface = socket.if_indextoname(index)
    except OSError:
        interface = ""
    return {"address": socket.inet_ntop(family, raw), "prefix": prefix, "interface": interface}
