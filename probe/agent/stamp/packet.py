"""STAMP test packets: RFC 8762 section 4.2 (base), RFC 8972 section 4 (TLVs), unauthenticated mode.

Both directions have the same size, ``PACKET_BYTES`` or more. Time stamps are in the truncated PTPv2 format
(32 bits of seconds, 32 bits of nanoseconds; Z = 1 in the error estimate), so nothing is lost to rounding.
Three TLVs follow the base, always in this order: the scan's token (a type of the private range),
Timestamp Information (section 4.3), which tells how the packet was stamped on receipt, and Follow-Up
Telemetry (section 4.7), in which a reply reports when the previous reply left.
"""

from __future__ import annotations

import struct

try:
    # hmac.compare_digest without loading OpenSSL, which is a third of the agent's memory.
    from _operator import _compare_digest as compare_digest
except ImportError:  # another Python than CPython
    from hmac import compare_digest  # type: ignore[assignment,no-redef,unused-ignore]

same_token = compare_digest
"""In constant time."""

PACKET_BYTES = 92

TLV_TIMESTAMP_INFORMATION = 3
TLV_FOLLOW_UP = 7
TLV_TOKEN = 252
TLV_NOT_RETURNED = 253
"""Of the private range: padding that makes a probe large, and that the reflector leaves out of its reply."""
FLAG_UNRECOGNIZED = 0x80
"""A sender sets it in every TLV, a reflector that knows the TLV clears it (RFC 8972 section 4)."""

METHOD_SOFTWARE = 2
"""Stamped by the kernel ("SW Local" of RFC 8972)."""
METHOD_USER = 3
"""Stamped by the agent itself in user space ("Control Plane")."""
SYNC_NONE = 5
"""Synchronisation source "Local free-running": the two clocks need not agree, so none is claimed."""

ERROR_ESTIMATE = 0x4000 | 16 << 8 | 1
"""S = 0 (not synchronised), Z = 1 (PTPv2), error 1 * 2**16 / 2**32 s = 15 us."""

_TOKEN_HEADER = bytes((TLV_TOKEN, 0, 16))
_INFORMATION_HEADER = bytes((TLV_TIMESTAMP_INFORMATION, 0, 4))
_FOLLOW_UP_HEADER = bytes((TLV_FOLLOW_UP, 0, 16))
"""Without the byte of flags before each."""
_TLVS_OUT = struct.Struct("!B3s16s B3s4x B3s16x")
_SEQ_AND_SSID = struct.Struct("!I10xH")
_NUMBER_AND_STAMP = struct.Struct("!III")
_PROBE_BASE = struct.Struct("!IIIHH28x")
_REPLY = struct.Struct("!IIIHHII14s2xB3x x3s16s x3sBBBB x3sIIIB3x")
_REPLY_SEEN = struct.Struct("!III2xHIII 41xB6x IIIB3x")
"""What is looked at of a reply whose TLVs are known to be there."""
_TLV = struct.Struct("!BBH")
LARGE_BYTES = PACKET_BYTES + _TLV.size
_NS = 1000000000


def build_probe(seq: int, ssid: int, sent_ns: int, token: bytes) -> bytes:
    """A sender's packet. ``sent_ns`` is T1 as user space knows it, ns since the epoch."""
    seconds, ns = divmod(sent_ns, _NS)
    flag = FLAG_UNRECOGNIZED
    return _PROBE_BASE.pack(seq, seconds & 0xFFFFFFFF, ns, ERROR_ESTIMATE, ssid) + _TLVS_OUT.pack(
        flag, _TOKEN_HEADER, token, flag, _INFORMATION_HEADER, flag, _FOLLOW_UP_HEADER
    )  # fmt: skip


def restamp_probe(probe: bytearray, seq: int, sent_ns: int) -> None:
    """Make another probe of the same series out of what ``build_probe`` made."""
    seconds, ns = divmod(sent_ns, _NS)
    _NUMBER_AND_STAMP.pack_into(probe, 0, seq, seconds & 0xFFFFFFFF, ns)


def build_large_probe(seq: int, ssid: int, sent_ns: int, token: bytes, length: int) -> bytes:
    """A probe of ``length`` bytes, ``LARGE_BYTES`` or more, whose reply has ``PACKET_BYTES``."""
    rest = length - LARGE_BYTES
    return (
        build_probe(seq, ssid, sent_ns, token)
        + _TLV.pack(FLAG_UNRECOGNIZED, TLV_NOT_RETURNED, rest & 0xFFFF)
        + bytes(rest)
    )


def padding_to_return(data: bytes) -> bytes:
    """What follows the known part of a probe and goes back with its reply."""
    if len(data) >= LARGE_BYTES and data[PACKET_BYTES + 1] == TLV_NOT_RETURNED:
        return b""
    return data[PACKET_BYTES:]


class Probe:
    """A sender's packet as the reflector sees it. ``said``: its number, stamp and error estimate, as they go back."""

    __slots__ = ("said", "seq", "ssid", "token")

    def __init__(self, seq: int, ssid: int, said: bytes, token: bytes) -> None:
        self.seq = seq
        self.ssid = ssid
        self.said = said
        self.token = token

    @property
    def stamp(self) -> bytes:
        """The sender's T1."""
        return self.said[4:12]


def parse_probe(data: bytes, token: bytes) -> Probe | None:
    """The probe in ``data``; None when it is too short, of another layout or without the scan's token."""
    if (
        len(data) < PACKET_BYTES
        or data[65:68] != _INFORMATION_HEADER
        or data[73:76] != _FOLLOW_UP_HEADER
        or not compare_digest(data[45:64], _TOKEN_HEADER + token)
    ):
        return None
    seq, ssid = _SEQ_AND_SSID.unpack_from(data)
    return Probe(seq, ssid, data[:14], token)


def build_reply(
    probe: Probe,
    received_ns: int,
    received_method: int,
    sent_ns: int,
    sent_method: int,
    ttl: int,
    previous: tuple[int, int, int],
) -> bytes:
    """The reflector's packet, ``PACKET_BYTES`` long (RFC 8762 section 4.3.1, stateless numbering).

    ``received_ns`` is T2, ``sent_ns`` T3 as user space knows it, ``previous`` the (sequence number, T3 in
    ns, method) of the reply that went to this sender before; zeros when there was none. A number that is the
    probe's own says that the probe was answered before.
    """
    t2, t2_ns = divmod(received_ns, _NS)
    t3, t3_ns = divmod(sent_ns, _NS)
    last_seq, last_sent, last_method = previous
    last, last_ns = divmod(last_sent, _NS)
    return _REPLY.pack(
        probe.seq, t3 & 0xFFFFFFFF, t3_ns, ERROR_ESTIMATE, probe.ssid, t2 & 0xFFFFFFFF, t2_ns,
        probe.said, ttl, _TOKEN_HEADER, probe.token,
        _INFORMATION_HEADER, SYNC_NONE, received_method, SYNC_NONE, sent_method,
        _FOLLOW_UP_HEADER, last_seq, last & 0xFFFFFFFF, last_ns, last_method,
    )  # fmt: skip


class Reply:
    """A reflector's packet as the sender sees it; times in ns since the epoch (of the reflector)."""

    __slots__ = ("previous_kernel", "previous_seq", "previous_t3", "seq", "t2", "t2_kernel", "t3")

    def __init__(
        self,
        seq: int,
        t2: int,
        t2_kernel: bool,
        t3: int,
        previous_seq: int,
        previous_t3: int,
        previous_kernel: bool,
    ) -> None:
        self.seq = seq
        self.t2 = t2
        self.t2_kernel = t2_kernel
        self.t3 = t3
        self.previous_seq = previous_seq
        self.previous_t3 = previous_t3
        self.previous_kernel = previous_kernel

    @property
    def is_of_copy(self) -> bool:
        """Whether it is the reply to a copy of a probe that had been answered: then it reports its own number."""
        return self.previous_seq == self.seq != 0


def parse_reply(data: bytes, ssid: int, token: bytes) -> Reply | None:
    """The reply in ``data``; None when it is not a reply of this session."""
    # The flags of the TLVs are zero: this reflector knows them all.
    if (
        len(data) != PACKET_BYTES
        or data[64:68] != b"\0" + _INFORMATION_HEADER
        or data[72:76] != b"\0" + _FOLLOW_UP_HEADER
        or not compare_digest(data[44:64], b"\0" + _TOKEN_HEADER + token)
    ):
        return None
    seq, t3, t3_ns, got_ssid, t2, t2_ns, sender_seq, method, last_seq, last, last_ns, last_method = (
        _REPLY_SEEN.unpack(data)
    )
    if got_ssid != ssid or sender_seq != seq:
        return None
    return Reply(
        seq,
        t2 * _NS + t2_ns,
        method == METHOD_SOFTWARE,
        t3 * _NS + t3_ns,
        last_seq,
        last * _NS + last_ns,
        last_method == METHOD_SOFTWARE,
    )
