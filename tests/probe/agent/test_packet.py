"""STAMP packets: the layout of RFC 8762 and RFC 8972, byte by byte, and what is refused."""

from __future__ import annotations

import struct
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.agent.stamp import packet

TOKEN = bytes(range(16))
u32 = st.integers(0, 2**32 - 1)
times = st.integers(0, (2**32 - 1) * 10**9 + 999_999_999)
methods = st.sampled_from([0, packet.METHOD_SOFTWARE, packet.METHOD_USER])


def test_a_probe_has_the_layout_of_the_rfcs() -> None:
    data = packet.build_probe(7, 0x1234, 5 * 10**9 + 6, TOKEN)
    assert len(data) == packet.PACKET_BYTES == 44 + 20 + 8 + 20
    seq, seconds, ns, error, ssid = struct.unpack_from("!IIIHH", data)
    assert (seq, seconds, ns, ssid) == (7, 5, 6, 0x1234)
    assert error & 0x8000 == 0  # S: not synchronised
    assert error & 0x4000  # Z: PTPv2 time stamps
    assert error & 0xFF  # the multiplier must not be 0
    assert data[16:44] == bytes(28)
    assert data[44:48] == bytes([0x80, 252, 0, 16]) and data[48:64] == TOKEN
    assert data[64:68] == bytes([0x80, 3, 0, 4]) and data[68:72] == bytes(4)
    assert data[72:76] == bytes([0x80, 7, 0, 16]) and data[76:92] == bytes(16)


@given(u32, u32, times, times)
def test_a_probe_that_is_made_of_another_one_is_as_a_new_one(
    first: int, seq: int, before: int, now: int
) -> None:
    data = bytearray(packet.build_probe(first, 0x1234, before, TOKEN))
    packet.restamp_probe(data, seq, now)
    assert bytes(data) == packet.build_probe(seq, 0x1234, now, TOKEN)


def test_a_reply_has_the_layout_of_the_rfcs() -> None:
    sent = packet.build_probe(7, 0x1234, 5 * 10**9 + 6, TOKEN)
    probe = packet.parse_probe(sent, TOKEN)
    assert probe is not None
    data = packet.build_reply(probe, 8 * 10**9 + 1, 2, 9 * 10**9 + 2, 3, 61, (6, 4 * 10**9 + 3, 2))
    assert len(data) == len(sent)
    assert struct.unpack_from("!III", data) == (7, 9, 2)  # sequence number, T3
    assert struct.unpack_from("!HII", data, 14) == (0x1234, 8, 1)  # SSID, T2
    assert struct.unpack_from("!I", data, 24) == (7,)  # the sender's number
    assert data[28:36] == sent[4:12] and data[36:38] == sent[12:14]  # the sender's stamp and error
    assert data[38:40] == bytes(2) and data[40] == 61 and data[41:44] == bytes(3)  # TTL
    assert data[44:48] == bytes([0, 252, 0, 16]) and data[48:64] == TOKEN
    assert data[64:72] == bytes([0, 3, 0, 4, 5, 2, 5, 3])
    assert data[72:76] == bytes([0, 7, 0, 16])
    assert struct.unpack_from("!IIIB3x", data, 76) == (6, 4, 3, 2)


class Stamps(NamedTuple):
    """What the reflector stamps of one probe, and by which methods."""

    t2: int
    m2: int
    t3: int
    m3: int


@given(
    u32,
    st.integers(0, 65535),
    times,
    st.builds(Stamps, times, methods, times, methods),
    st.integers(0, 255),
    st.tuples(u32, times),
)
def test_probe_and_reply_come_back_as_they_were(
    seq: int, ssid: int, t1: int, stamps: Stamps, ttl: int, previous: tuple[int, int]
) -> None:
    t2, m2, t3, m3 = stamps
    last, last_t3 = previous
    probe = packet.parse_probe(packet.build_probe(seq, ssid, t1, TOKEN), TOKEN)
    assert probe is not None and (probe.seq, probe.ssid) == (seq, ssid)
    data = packet.build_reply(probe, t2, m2, t3, m3, ttl, (last, last_t3, m3))
    reply = packet.parse_reply(data, ssid, TOKEN)
    assert reply is not None
    assert (reply.seq, reply.t2, reply.t3) == (seq, t2, t3)
    assert (reply.previous_seq, reply.previous_t3) == (last, last_t3)
    assert reply.t2_kernel == (m2 == packet.METHOD_SOFTWARE)
    assert reply.previous_kernel == (m3 == packet.METHOD_SOFTWARE)


@given(st.binary(max_size=300))
def test_garbage_is_neither_probe_nor_reply(data: bytes) -> None:
    assert packet.parse_probe(data, TOKEN) is None
    assert packet.parse_reply(data, 1, TOKEN) is None


@given(st.integers(44, packet.PACKET_BYTES - 1), st.integers(1, 255))
def test_a_byte_changed_in_token_or_tlv_header_is_refused(place: int, change: int) -> None:
    data = bytearray(packet.build_probe(1, 2, 3, TOKEN))
    data[place] ^= change
    in_header = place in (45, 46, 47, 65, 66, 67, 73, 74, 75)
    in_token = 48 <= place < 64
    assert (packet.parse_probe(bytes(data), TOKEN) is None) == (in_header or in_token)


def test_short_packets_other_sessions_and_other_tokens_are_refused() -> None:
    sent = packet.build_probe(1, 2, 3, TOKEN)
    assert packet.parse_probe(sent[:-1], TOKEN) is None
    assert packet.parse_probe(sent, bytes(16)) is None
    probe = packet.parse_probe(sent, TOKEN)
    assert probe is not None
    reply = packet.build_reply(probe, 1, 2, 3, 3, 64, (0, 0, 0))
    assert packet.parse_reply(reply, 2, TOKEN) is not None
    assert packet.parse_reply(reply, 3, TOKEN) is None
    assert packet.parse_reply(reply, 2, bytes(16)) is None
    assert packet.parse_reply(sent, 2, TOKEN) is None  # a probe that comes back is not a reply
