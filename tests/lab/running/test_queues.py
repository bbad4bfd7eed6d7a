"""What waits, what is dropped and what is marked at a lab's rates; and the TCP that its hosts have."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from netprobe.core.errors import InternalError, PlatformError
from netprobe.lab import Lab, LabHost, LabSpec, set_value, temporary
from netprobe.lab.kernel import congestion_controls
from netprobe.lab.switch.control import tell_switch

pytestmark = pytest.mark.lab

Burst = Callable[[LabHost, LabHost, int, int, int], list[float]]
SIZE, COUNT = 1400, 30
"""Of datagrams, 11.5 ms each at the rate of this lab: no machine is so slow that they do not wait for each other."""
NOT_ECT, ECT, CE = 0, 2, 3
CONTROL = next(iter(congestion_controls()), "reno")


@pytest.fixture(scope="module")
def slow_lab() -> Iterator[Lab]:
    """Two hosts in a rack, 1 Mbit/s, with room for whatever these tests send."""
    spec = LabSpec.from_spec(
        {
            "name": "queues", "racks": [2], "shuffle": False, "host_rate": "1Mbit/s", "host_queue": "1000 packets",
            "ecn_mark": "2 packets", "congestion_control": CONTROL,
        }
    )  # fmt: skip
    with temporary(spec, seed=5) as lab:
        yield lab


def test_packets_wait_in_a_long_queue_and_are_dropped_by_a_short_one(slow_lab: Lab, burst: Burst) -> None:
    src, dst = slow_lab.hosts
    assert len(burst(src, dst, COUNT, SIZE, NOT_ECT)) == COUNT
    try:
        for queue in ("2 packets", "3kB", "25ms"):
            set_value(slow_lab, src.name, "queue", queue)
            before = slow_lab.stats()["dropped_queue"]
            # The first leaves at once, and the next three find at most two frames waiting.
            arrived = len(burst(src, dst, COUNT, SIZE, NOT_ECT))
            assert 3 <= arrived < COUNT
            assert slow_lab.stats()["dropped_queue"] - before == COUNT - arrived
    finally:
        set_value(slow_lab, src.name, "queue", "1000 packets")


def test_what_finds_more_than_the_mark_waiting_is_marked_where_it_may_be(slow_lab: Lab, burst: Burst) -> None:
    src, dst = slow_lab.hosts
    before = slow_lab.stats()["marked"]
    seen = burst(src, dst, COUNT, SIZE, ECT)
    assert set(seen) == {ECT, CE} and len(seen) == COUNT
    assert seen[:2] == [ECT, ECT]
    assert slow_lab.stats()["marked"] - before == seen.count(CE)
    assert set(burst(src, dst, COUNT, SIZE, NOT_ECT)) == {NOT_ECT}


def test_hosts_ask_for_ecn_and_have_the_congestion_control(slow_lab: Lab) -> None:
    read = ["cat", "/proc/sys/net/ipv4/tcp_ecn", "/proc/sys/net/ipv4/tcp_congestion_control"]
    for host in slow_lab.hosts:
        done = subprocess.run(
            slow_lab.exec_argv(host.name, read), capture_output=True, text=True, check=True, timeout=100
        )
        assert done.stdout.split() == ["1", CONTROL]


def test_a_congestion_control_that_the_kernel_lacks_is_refused_before_anything_is_made() -> None:
    spec = LabSpec.from_spec({"name": "lacking", "racks": [2], "congestion_control": "nobodys"})
    with pytest.raises(PlatformError, match="'nobodys'"), temporary(spec):
        raise AssertionError("a lab was made")


@pytest.mark.parametrize(
    "command",
    [
        "queue", "queue host r0h0 tx ns", "queue host r0h0 tx ns -1", "queue host r0h0 tx packets 5",
        "queue host r0h0 up ns 5", "queue host nobody tx ns 5", "queue uplink 9 up ns 5", "queue rack 0 up ns 5",
        "queue host r0h0 tx ns 60000000001", "mark host r0h0 tx bytes 1000000001", "mark uplink 0 tx bytes 5",
        "queue host r0h0 tx ns 5 5", "mark host r0h0 tx bytes 5x",
    ],
)  # fmt: skip
def test_lengths_that_cannot_be_are_refused_by_the_switch(slow_lab: Lab, command: str) -> None:
    with pytest.raises(InternalError):
        tell_switch(slow_lab.directory, [command])


def test_a_host_that_shapes_itself_waits_where_the_fabric_would_drop(burst: Burst) -> None:
    spec = {
        "name": "shaping", "racks": [2], "shuffle": False, "host_rate": "1Mbit/s", "host_queue": "1000 packets",
        "host_shaping": "interface",
    }  # fmt: skip
    with temporary(LabSpec.from_spec(spec), seed=5) as lab:
        src, dst = lab.hosts
        began = time.monotonic()
        assert len(burst(src, dst, 100, SIZE, NOT_ECT)) == 100
        # 100 of 1442 bytes, less the burst that leaves at once: no machine sends them sooner.
        assert time.monotonic() - began >= (100 * 1442 - 20_000) / 125_000
        shown = subprocess.run(
            lab.exec_argv(src.name, ["tc", "qdisc", "show", "dev", "eth0"]),
            capture_output=True, text=True, check=True, timeout=100,
        )  # fmt: skip
        assert "tbf" in shown.stdout and "1Mbit" in shown.stdout
