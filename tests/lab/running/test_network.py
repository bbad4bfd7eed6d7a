"""What the lab's network does to packets."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from netprobe.core.errors import InputError, InternalError
from netprobe.lab import Lab, LabHost, set_value
from netprobe.lab.switch.control import SOCKET_FILE, tell_switch

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

Racks = list[list[LabHost]]
Pairs = Sequence[tuple[LabHost, LabHost]]
MBIT_BYTES = 1e6 / 8


def _run(lab: Lab, host: str | None, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        lab.exec_argv(host, argv),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_each_host_has_its_own_name_and_loopback(small_lab: Lab) -> None:
    for host in small_lab.hosts:
        assert _run(small_lab, host.name, "hostname").stdout == f"{host.name}\n"
    assert _run(small_lab, None, "hostname").stdout == f"{small_lab.name}-controller\n"
    host = small_lab.hosts[0]
    server = f"s = socket.create_server(('{host.address}', 0))"
    check = f"import socket; {server}; socket.create_connection(s.getsockname())"
    assert _run(small_lab, host.name, sys.executable, "-c", check).returncode == 0


def test_round_trips_take_what_was_configured(
    small_lab: Lab, racks: Racks, measure_rtt_s: Callable[[Pairs, int], list[list[float]]]
) -> None:
    inside, across = (racks[0][0], racks[0][1]), (racks[0][0], racks[1][0])
    for pair, configured_s in ((inside, 100e-6), (across, 300e-6)):
        (readings,) = measure_rtt_s([pair], 200)
        assert len(readings) >= 190
        # The switch adds 5 to 9 us. A busy machine adds more, but hardly ever to all of them, and takes nothing
        # away: it is the least that is looked at, here and below, and no more than the other tier's.
        assert configured_s - 1e-6 <= min(readings) <= configured_s + 100e-6


def test_the_controller_reaches_every_host_without_delay(
    small_lab: Lab, measure_rtt_s: Callable[[Pairs, int], list[list[float]]]
) -> None:
    (readings,) = measure_rtt_s([(small_lab.layout.controller, small_lab.hosts[0])], 200)
    assert min(readings) < 100e-6  # what a delay of 50 us each way would make it


def test_a_delay_can_be_set_while_the_lab_runs(
    small_lab: Lab, racks: Racks, measure_rtt_s: Callable[[Pairs, int], list[list[float]]]
) -> None:
    pairs = [(racks[0][0], racks[1][0]), (racks[0][1], racks[0][0])]
    set_value(small_lab, "rack0:rack1", "delay", "2ms")
    set_value(small_lab, "rack0", "delay", "1ms")
    try:
        across, inside = measure_rtt_s(pairs, 50)
        assert 4e-3 - 1e-6 <= min(across) <= 5e-3
        assert 2e-3 - 1e-6 <= min(inside) <= 3e-3
    finally:
        set_value(small_lab, "rack1:rack0", "delay", "150us")
        set_value(small_lab, "rack0", "delay", "50us")


def test_rates_hold_a_host_and_a_shared_uplink(
    small_lab: Lab, racks: Racks, measure_goodput: Callable[[Pairs], list[float]]
) -> None:
    inside, across = (racks[0][0], racks[0][1]), [(racks[0][0], racks[1][0]), (racks[0][1], racks[1][1])]
    try:
        # Rates that cost this machine little: a busy one fills them too. Above them is only what was queued.
        set_value(small_lab, racks[0][0].name, "rate", "10Mbit/s")
        (one,) = measure_goodput([inside])
        assert 5 * MBIT_BYTES < one < 12 * MBIT_BYTES
        set_value(small_lab, "rack0", "uplink_rate", "20Mbit/s")
        set_value(small_lab, "all", "rate", "20Mbit/s")
        both = measure_goodput(across)
        assert 10 * MBIT_BYTES < sum(both) < 24 * MBIT_BYTES
        set_value(small_lab, "rack0", "uplink_rate", "unlimited")
        both = measure_goodput(across)
        assert 25 * MBIT_BYTES < sum(both) < 48 * MBIT_BYTES
    finally:
        set_value(small_lab, "all", "rate", "unlimited")
        set_value(small_lab, "all", "uplink_rate", "unlimited")


def test_without_rates_whole_large_packets_pass(
    small_lab: Lab, racks: Racks, measure_goodput: Callable[[Pairs], list[float]]
) -> None:
    before = small_lab.stats()
    (goodput,) = measure_goodput([(racks[0][0], racks[0][1])])
    after = small_lab.stats()
    assert after["dropped_error"] == before["dropped_error"]
    # Those of the warm-up and the acknowledgements are counted too.
    packets = after["received"] - before["received"]
    assert goodput * 0.6 / packets > 2 * 1500


@pytest.mark.parametrize(
    ("what", "key", "value", "needed"),
    [
        ("nobody", "rate", "1Gbit/s", "no host 'nobody'"),
        ("rack9", "uplink_rate", "1Gbit/s", "rack0, rack1"),
        ("rack0:rack1", "uplink_rate", "1Gbit/s", "two racks takes delay"),
        ("rack0:rack7", "delay", "1ms", "its racks are rack0, rack1"),
        ("rack0", "delay", "1us", "out of range"),
        ("rack0", "uplink_rate", "much", "not a rate"),
        ("all", "colour", "red", "cannot be set"),
        ("rack0", "rate", "1Gbit/s", "a rack takes uplink_rate"),
    ],
)
def test_what_cannot_be_set_is_refused(small_lab: Lab, what: str, key: str, value: str, needed: str) -> None:
    with pytest.raises(InputError, match=needed):
        set_value(small_lab, what, key, value)


def test_an_unknown_host_or_no_command_is_refused(small_lab: Lab) -> None:
    with pytest.raises(InputError, match="no host 'x'"):
        small_lab.exec_argv("x", ["true"])
    with pytest.raises(InputError, match="no command"):
        small_lab.exec_argv(None, [])


def test_malformed_control_commands_are_refused_and_do_no_harm(small_lab: Lab) -> None:
    name = small_lab.hosts[0].name
    bad = [
        "", " ", "nonsense", "host", "host nobody tx 1", f"host {name} sideways 1", f"host {name} tx -1",
        f"host {name} tx 1x", f"host {name} tx {'9' * 30}", f"host {name} tx 1 2", "uplink 99 up 1",
        "uplink -1 up 1", "delay 0 0", "delay 0 77 1", "delay 0 0 999999999999999", "racks 3",
        f"impair host {name}", f"impair host {name} loss", f"impair host {name} loss 1000000001",
        f"impair host {name} colour 1", f"impair link {name} nobody loss 1", "impair racks 0 9 loss 1",
        f"impair link {name} {name} paths 1,,2", f"impair link {name} {name} paths 1,2,3,4,5,6,7,8,9",
        f"impair host {name} loss 1 2", "impair a b c d", f"background {name} {name} 1",
        f"background {name} nobody 1", "clear", "clear all", "seed 1", "routers",
        "port p0 x 0 02:00:00:00:00:00", "%s%n%s%n", "a b c d e f g h", "host " + "x" * 100 + " tx 1",
    ]  # fmt: skip
    for command in bad:
        with pytest.raises(InternalError):
            tell_switch(small_lab.directory, [command])
    path = str(small_lab.directory / SOCKET_FILE)
    for raw in (b"x" * 5000, b"\xff\x00\n" * 50, b"half a line", b"\n" * 1000, b"ping\r\nping"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(path)
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            try:
                while connection.recv(65536):
                    pass
            except ConnectionResetError:
                pass  # it hung up on us with our bytes unread
    # More clients than it serves at once, none of which says anything.
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(12)]
    for client in crowd:
        client.connect(path)
    for client in crowd:
        client.close()
    assert tell_switch(small_lab.directory, ["ping", "ping"]) == ["", ""]


def test_the_control_socket_is_private(small_lab: Lab) -> None:
    assert (small_lab.directory / SOCKET_FILE).stat().st_mode & 0o777 == 0o600
    assert small_lab.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("config", "needed"),
    [
        ("", "no port"),
        ("racks 0\n", "number of racks"),
        ("racks 1\nport nope a 0 02:00:00:00:00:01\n", "no such interface"),
        ("port lo a 0 02:00:00:00:00:01\n", "no such rack"),
        ("racks 1\nport lo a 0 02:00:00:00:00\n", "no hardware address"),
        ("racks 1\nport lo a 0 02:00:00:00:00:01\nport lo a 0 02:00:00:00:00:02\n", "there already"),
        ("x" * 1000, "unknown command"),
    ],
)
def test_the_switch_refuses_a_configuration_that_cannot_be(
    compiled_switch: Path, tmp_path: Path, config: str, needed: str
) -> None:
    argv = ["unshare", "--net", str(compiled_switch), str(tmp_path / "socket"), str(tmp_path / "pid")]
    done = subprocess.run(argv, input=config, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    assert needed in done.stderr
    assert not (tmp_path / "pid").exists()
