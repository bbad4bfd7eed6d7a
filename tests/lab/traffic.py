"""Traffic for judging the lab itself, run as a script by the tests; prints JSON.

    rtt COUNT PERIOD_S NEAR_NAMESPACE NEAR_ADDRESS FAR_NAMESPACE FAR_ADDRESS
        round-trip times in seconds, from kernel stamps at all four places
    arrivals COUNT NEAR_NAMESPACE NEAR_ADDRESS FAR_NAMESPACE FAR_ADDRESS
        how many of so many datagrams arrived, one way
    burst COUNT BYTES TOS NEAR_NAMESPACE NEAR_ADDRESS FAR_NAMESPACE FAR_ADDRESS
        the type of service of each datagram that arrived, of so many of so many bytes sent at once
    routers BYTES NEAR_NAMESPACE NEAR_ADDRESS FAR_NAMESPACE FAR_ADDRESS
        for each time to live from 1 the last byte of the address whose error came back, 0 once the far host
        got it; then the size of path that the near host's kernel learned from a datagram of so many bytes
    goodput SECONDS (NEAR_NAMESPACE NEAR_ADDRESS FAR_NAMESPACE FAR_ADDRESS)...
        bytes a second that each far end received over TCP, all flows at once

One process holds a socket in each namespace, so that nothing has to be reported back.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_SO_TIMESTAMPING = 37
# Software stamps of sending and receiving, and no copy of the packet with the former.
_FLAGS = (1 << 1) | (1 << 3) | (1 << 4) | (1 << 11)
_SCM_TIMESTAMPING = 37
_IP_RECVTOS = 13
_CLONE_NEWNET = 0x40000000
_WARM_UP_S = 0.2


def _socket_in(namespace: str, address: str, kind: socket.SocketKind) -> socket.socket:
    made: list[socket.socket] = []

    def make() -> None:
        with Path(f"/run/netns/{namespace}").open("rb") as file:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {namespace}")
        sock = socket.socket(socket.AF_INET, kind)
        sock.bind((address, 0))
        made.append(sock)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


def _stamp_ns(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SCM_TIMESTAMPING:
            seconds, nanoseconds = struct.unpack_from("qq", data)
            return int(seconds * 10**9 + nanoseconds)
    raise RuntimeError("no stamp")


def _receive(sock: socket.socket, wait_s: float) -> tuple[bytes, int] | None:
    if not select.select([sock], [], [], wait_s)[0]:
        return None
    data, ancillary, _, _ = sock.recvmsg(256, 512)
    return data, _stamp_ns(ancillary)


def _sent_ns(sock: socket.socket) -> int:
    while True:
        try:
            _, ancillary, _, _ = sock.recvmsg(256, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            return _stamp_ns(ancillary)
        except BlockingIOError:
            time.sleep(0)


def _probe(near: socket.socket, far: socket.socket, payload: bytes) -> float | None:
    near.sendto(payload, far.getsockname())
    request = _receive(far, 5.0)
    if request is None:
        return None
    far.sendto(payload, near.getsockname())
    reply = _receive(near, 5.0)
    if reply is None:
        return None
    return ((reply[1] - _sent_ns(near)) - (_sent_ns(far) - request[1])) / 1e9


def _rtt(count: int, period_s: float, ends: Sequence[str]) -> list[float]:
    near = _socket_in(ends[0], ends[1], socket.SOCK_DGRAM)
    far = _socket_in(ends[2], ends[3], socket.SOCK_DGRAM)
    for sock in (near, far):
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _FLAGS)
    readings = []
    for number in range(count):
        started = time.monotonic()
        rtt_s = _probe(near, far, struct.pack("!Q", number) + bytes(36))
        if rtt_s is not None:
            readings.append(rtt_s)
        time.sleep(max(0.0, started + period_s - time.monotonic()))
    return readings


def _arrivals(count: int, ends: Sequence[str]) -> list[float]:
    near = _socket_in(ends[0], ends[1], socket.SOCK_DGRAM)
    far = _socket_in(ends[2], ends[3], socket.SOCK_DGRAM)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    for number in range(count):
        near.sendto(struct.pack("!Q", number), far.getsockname())
        time.sleep(0.0005)
    arrived = silent = 0
    # Twice: where the whole machine has stood still, the first time is up before anybody could do anything.
    while arrived < count and silent < 2:
        if select.select([far], [], [], 0.25)[0]:
            far.recv(64)
            arrived, silent = arrived + 1, 0
        else:
            silent += 1
    return [arrived]


def _burst(count: int, size: int, tos: int, ends: Sequence[str]) -> list[float]:
    near = _socket_in(ends[0], ends[1], socket.SOCK_DGRAM)
    far = _socket_in(ends[2], ends[3], socket.SOCK_DGRAM)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    far.setsockopt(socket.IPPROTO_IP, _IP_RECVTOS, 1)
    near.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    for _ in range(count):
        near.sendto(bytes(size), far.getsockname())
    found: list[float] = []
    silent = 0
    while len(found) < count and silent < 2:
        if not select.select([far], [], [], 1.0)[0]:
            silent += 1
            continue
        _, ancillary, _, _ = far.recvmsg(size, 64)
        found += [float(data[0]) for _, kind, data in ancillary if kind == socket.IP_TOS]
        silent = 0
    return found


def _routers(size: int, ends: Sequence[str]) -> list[float]:
    ip_mtu_discover, ip_pmtudisc_do, ip_recverr, ip_mtu = 10, 2, 11, 14
    near = _socket_in(ends[0], ends[1], socket.SOCK_DGRAM)
    far = _socket_in(ends[2], ends[3], socket.SOCK_DGRAM)
    near.setsockopt(socket.IPPROTO_IP, ip_recverr, 1)
    near.setsockopt(socket.IPPROTO_IP, ip_mtu_discover, ip_pmtudisc_do)
    near.connect(far.getsockname())
    found = []
    for ttl in range(1, 9):
        near.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        near.send(b"x")
        if select.select([near, far], [], [], 20.0)[0] == [far]:
            far.recv(64)
            found.append(0.0)
            break
        _, ancillary, _, _ = near.recvmsg(256, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        # struct sock_extended_err, then the struct sockaddr_in of who complained.
        found.append(float(ancillary[0][2][16 + 7]))
    near.send(bytes(size))
    select.select([near], [], [], 1.0)
    return [*found, near.getsockopt(socket.IPPROTO_IP, ip_mtu)]


def _send_until_closed(sock: socket.socket) -> None:
    block = bytes(1 << 16)
    try:
        while True:
            sock.sendall(block)
    except OSError:
        return


def _received(sock: socket.socket, seconds: float, results: list[float], index: int) -> None:
    buffer = bytearray(1 << 18)
    begin = time.monotonic() + _WARM_UP_S
    total = 0
    while (now := time.monotonic()) < begin + seconds:
        got = sock.recv_into(buffer)
        total += got if now >= begin else 0
    results[index] = total / seconds


def _goodput(seconds: float, ends: Sequence[str]) -> list[float]:
    flows = [ends[index : index + 4] for index in range(0, len(ends), 4)]
    results = [0.0] * len(flows)
    joined = []
    for near_namespace, near_address, far_namespace, far_address in flows:
        listener = _socket_in(far_namespace, far_address, socket.SOCK_STREAM)
        listener.listen(1)
        near = _socket_in(near_namespace, near_address, socket.SOCK_STREAM)
        near.connect(listener.getsockname())
        joined.append((near, listener.accept()[0]))
    receivers = []
    for index, (near, far) in enumerate(joined):
        threading.Thread(target=_send_until_closed, args=(near,), daemon=True).start()
        receivers.append(threading.Thread(target=_received, args=(far, seconds, results, index)))
        receivers[-1].start()
    for receiver in receivers:
        receiver.join()
    return results


def main(argv: list[str]) -> None:
    if argv[0] == "rtt":
        result = _rtt(int(argv[1]), float(argv[2]), argv[3:])
    elif argv[0] == "arrivals":
        result = _arrivals(int(argv[1]), argv[2:])
    elif argv[0] == "burst":
        result = _burst(int(argv[1]), int(argv[2]), int(argv[3]), argv[4:])
    elif argv[0] == "routers":
        result = _routers(int(argv[1]), argv[2:])
    else:
        result = _goodput(float(argv[1]), argv[2:])
    os.write(1, json.dumps(result).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
