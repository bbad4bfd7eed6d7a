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

_LAYOUT = (TLV_TOKEN, 16, TLV_TIMESTAMP_INFORMATION, 4, TLV_FOLLOW_UP, 16)
_TLVS_OUT = struct.Struct("!BBH16s BBHBBBB BBHIIIB3x")
_PROBE = struct.Struct("!I8s2sH28x xBH16s xBH4x xBH16x")
_NUMBER_AND_STAMP = struct.Struct("!III")
_PROBE_BASE = struct.Struct("!IIIHH28x")
_REPLY = struct.Struct("!IIIHHIII8s2s2xB3x BBH16s BBHBBBB BBHIIIB3x")
_TLV = struct.Struct("!BBH")
LARGE_BYTES = PACKET_BYTES + _TLV.size
_NS = 1000000000


def build_probe(seq: int, ssid: int, sent_ns: int, token: bytes) -> bytes:
    """A sender's packet. ``sent_ns`` is T1 as user space knows it, ns since the epoch."""
    seconds, ns = divmod(sent_ns, _NS)
    flag = FLAG_UNRECOGNIZED
    return _PROBE_BASE.pack(seq, seconds & 0xFFFFFFFF, ns, ERROR_ESTIMATE, ssid) + _TLVS_OUT.pack(
        flag, TLV_TOKEN, 16, token,
        flag, TLV_TIMESTAMP_INFORMATION, 4, 0, 0, 0, 0,
        flag, TLV_FOLLOW_UP, 16, 0, 0, 0, 0,
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
    """A sender's packet as the reflector sees it."""

    __slots__ = ("error_estimate", "seq", "ssid", "stamp", "token")

    def __init__(self, seq: int, stamp: bytes, error_estimate: bytes, ssid: int, token: bytes) -> None:
        self.seq = seq
        self.stamp = stamp
        self.error_estimate = error_estimate
        self.ssid = ssid
        self.token = token


def parse_probe(data: bytes, token: bytes) -> Probe | None:
    """The probe in ``data``; None when it is too short, of another layout or without the scan's token."""
    if len(data) < PACKET_BYTES:
        return None
    seq, stamp, error, ssid, type1, len1, sent_token, type2, len2, type3, len3 = _PROBE.unpack_from(data)
    if (type1, len1, type2, len2, type3, len3) != _LAYOUT or not compare_digest(sent_token, token):
        return None
    return Probe(seq, stamp, error, ssid, sent_token)


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
        probe.seq, probe.stamp, probe.error_estimate, ttl,
        0, TLV_TOKEN, 16, probe.token,
        0, TLV_TIMESTAMP_INFORMATION, 4, SYNC_NONE, received_method, SYNC_NONE, sent_method,
        0, TLV_FOLLOW_UP, 16, last_seq, last & 0xFFFFFFFF, last_ns, last_method,
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
    if len(data) != PACKET_BYTES:
        return None
    (
        seq, t3, t3_ns, _error, got_ssid, t2, t2_ns, sender_seq, _t1, _t1_error, _ttl,
        flag1, type1, len1, got_token, flag2, type2, len2, _in, t2_method, _out, _t3_method,
        flag3, type3, len3, last_seq, last, last_ns, last_method,
    ) = _REPLY.unpack(data)  # fmt: skip
    if (type1, len1, type2, len2, type3, len3) != _LAYOUT or flag1 or flag2 or flag3:
        return None
    if got_ssid != ssid or sender_seq != seq or not compare_digest(got_token, token):
        return None
    return Reply(
        seq,
        t2 * _NS + t2_ns,
        t2_method == METHOD_SOFTWARE,
        t3 * _NS + t3_ns,
        last_seq,
        last * _NS + last_ns,
        last_method == METHOD_SOFTWARE,
    )
