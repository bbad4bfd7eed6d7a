"""What the tests of the lab share. Real labs need root on Linux, iproute2 and a C compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from netprobe.lab import Lab, LabHost, parse_spec, temporary

_TRAFFIC = Path(__file__).with_name("traffic.py")

Pairs = Sequence[tuple[LabHost, LabHost]]


@pytest.fixture(scope="module")
def small_lab() -> Iterator[Lab]:
    """Four hosts in two racks of two, without rates. A test that changes it puts it back."""
    spec = parse_spec("{name: small, racks: [2, 2], delay_inside: 50us, delay_between: 150us}")
    with temporary(spec, seed=5) as lab:
        yield lab


def _traffic(args: Sequence[str]) -> subprocess.Popen[str]:
    # -S: no site packages are needed, and it starts faster.
    return subprocess.Popen([sys.executable, "-S", str(_TRAFFIC), *args], stdout=subprocess.PIPE, text=True)


def _result(running: subprocess.Popen[str]) -> list[float]:
    text, _ = running.communicate(timeout=150)
    loaded: Any = json.loads(text)
    return [float(value) for value in loaded]


def _ends(near: LabHost, far: LabHost) -> list[str]:
    return [near.target, near.address, far.target, far.address]


@pytest.fixture(scope="session")
def measure_rtt_s() -> Callable[[Pairs, int], list[list[float]]]:
    """Round-trip times of several pairs probed at once, one list a pair."""

    def measure(pairs: Pairs, count: int) -> list[list[float]]:
        running = [_traffic(["rtt", str(count), "0.001", *_ends(*pair)]) for pair in pairs]
        return [_result(one) for one in running]

    return measure


@pytest.fixture(scope="session")
def measure_goodput() -> Callable[[Pairs], list[float]]:
    """Bytes a second received by each pair's second host over 0.6 s, all flows at once."""

    def measure(pairs: Pairs) -> list[float]:
        return _result(_traffic(["goodput", "0.6", *(word for pair in pairs for word in _ends(*pair))]))

    return measure


@pytest.fixture(scope="session")
def arrivals() -> Callable[[LabHost, LabHost, int], int]:
    """How many of so many datagrams from one host arrive at another."""

    def measure(src: LabHost, dst: LabHost, count: int) -> int:
        return int(_result(_traffic(["arrivals", str(count), *_ends(src, dst)]))[0])

    return measure


@pytest.fixture(scope="session")
def burst() -> Callable[[LabHost, LabHost, int, int, int], list[float]]:
    """The type of service of each datagram that arrives, of so many of so many bytes with a type, sent at once."""

    def measure(src: LabHost, dst: LabHost, count: int, size: int, tos: int) -> list[float]:
        return _result(_traffic(["burst", str(count), str(size), str(tos), *_ends(src, dst)]))

    return measure


@pytest.fixture(scope="session")
def routers_between() -> Callable[[LabHost, LabHost, int], list[float]]:
    """What the routers between two hosts say: see traffic.py."""

    def measure(src: LabHost, dst: LabHost, size: int) -> list[float]:
        return _result(_traffic(["routers", str(size), *_ends(src, dst)]))

    return measure


def by_rack(lab: Lab) -> list[list[LabHost]]:
    return [[host for host in lab.hosts if host.rack == rack] for rack in range(len(lab.spec.racks))]


@pytest.fixture
def racks(small_lab: Lab) -> list[list[LabHost]]:
    """The hosts of the small lab, by rack."""
    return by_rack(small_lab)
