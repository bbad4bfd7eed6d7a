"""How near STAMP reads to what the lab's own packets take: 3 us is distinguished from 20, on a busy machine too."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from netprobe.core.hosts import read_hosts_file
from netprobe.lab import Lab, LabHost, parse_spec, temporary
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan

pytestmark = pytest.mark.lab

TRIES = 8
NEAR_S = 4e-6
"""Stamps of user space in the place of any of the kernel's add 5 us at the least, and 15 or more usually."""
PROBES = 60
_TIMESTAMPING, _ERRQUEUE = 37, 0x2000
_FLAGS = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 11  # software stamps of leaving and of receipt, without the packet
_NEWNET = 0x40000000


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with temporary(parse_spec("{name: accuracy, racks: [2]}"), seed=4) as made:
        yield made


def socket_in(host: LabHost) -> socket.socket:
    """A UDP socket of a host, with the kernel's stamps."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{host.target}", os.O_RDONLY)
    try:
        assert libc.setns(there, _NEWNET) == 0, os.strerror(ctypes.get_errno())
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    finally:
        libc.setns(home, _NEWNET)
        os.close(home)
        os.close(there)
    sock.bind((host.address, 0))
    sock.settimeout(10)
    sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPING, _FLAGS)
    return sock


def stamp_of(ancillary: list[tuple[int, int, bytes]]) -> int:
    (data,) = [data for level, kind, data in ancillary if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPING)]
    seconds, ns = struct.unpack_from("@ll", data)
    return int(seconds * 10**9 + ns)


def floor_s(lab: Lab) -> float:
    """p10 of what packets take there and back by the one clock that both hosts have, their kernel's.

    Nothing of netprobe's own is in it but the lab: a stamp when a packet leaves, and one when it arrives.
    """
    ends = [socket_in(host) for host in lab.hosts[:2]]
    try:
        trips = []
        for _ in range(PROBES):
            took = 0
            for near, far in (ends, ends[::-1]):
                near.sendto(bytes(92), far.getsockname())
                arrived = stamp_of(far.recvmsg(256, 256)[1])
                took += arrived - stamp_of(near.recvmsg(0, 256, _ERRQUEUE)[1])
            trips.append(took)
        return float(np.percentile(trips, 10)) / 1e9
    finally:
        for end in ends:
            end.close()


def test_a_reading_is_within_a_few_microseconds_of_what_the_packets_took(lab: Lab) -> None:
    hosts, launcher = read_hosts_file(lab.hosts_path), parse_via(lab.via_template)
    options = ScanOptions(probes_per_visit=PROBES, python=sys.executable, audit=False)
    off = []
    for _ in range(TRIES):
        before = floor_s(lab)
        scan = run_scan(hosts, launcher, options).scan
        assert {visit.stamps for visit in scan.visits} == {"kernel"}
        # Something else that runs meanwhile delays packets: once in some tries there is nothing.
        off.append(float(np.nanmean(scan.rtt_s.p10)) - min(before, floor_s(lab)))
        if abs(off[-1]) < NEAR_S:
            return
    pytest.fail(f"off by {', '.join(f'{1e6 * one:.1f}' for one in off)} us")
