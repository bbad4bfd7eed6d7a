"""What an agent reads of its host, and how it calls other programs: each against what the kernel or a program says."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import time
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.probe.agent import addresses, audit, fping
from netprobe.probe.agent.child import NOT_FOUND
from netprobe.probe.agent.goodput import iperf3
from netprobe.probe.agent.goodput import tasks as flow_tasks

V4, V6 = int(socket.AF_INET), int(socket.AF_INET6)


def attribute(kind: int, data: bytes) -> bytes:
    """struct rtattr of linux/rtnetlink.h, with what aligns the next one."""
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def address_body(
    family: int, prefix: int, flags: int, scope: int, *attributes: bytes, index: int = 1
) -> bytes:
    """struct ifaddrmsg of linux/if_addr.h."""
    return struct.pack("=BBBBI", family, prefix, flags, scope, index) + b"".join(attributes)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body + bytes(-len(body) % 4)


PEER, OWN = socket.inet_aton("10.0.0.9"), socket.inet_aton("10.0.0.7")


def test_an_address_has_its_prefix_and_interface() -> None:
    label = attribute(3, b"lo:secondary\0")  # IFA_LABEL, of an odd length
    entry = addresses._parse(address_body(V4, 24, 0, 0, label, attribute(1, PEER), attribute(2, OWN)))
    # IFA_LOCAL is the host's own, IFA_ADDRESS the other end of a point-to-point link.
    assert entry == {"address": "10.0.0.7", "prefix": 24, "interface": socket.if_indextoname(1)}
    six = addresses._parse(address_body(V6, 64, 0, 0, attribute(1, socket.inet_pton(V6, "2001:db8::7"))))
    assert six is not None and (six["address"], six["prefix"]) == ("2001:db8::7", 64)
    gone = addresses._parse(address_body(V4, 24, 0, 0, attribute(2, OWN), index=999_999))
    assert gone is not None and gone["interface"] == ""


@pytest.mark.parametrize(
    "body",
    [
        address_body(V4, 8, 0, 254, attribute(2, OWN)),  # RT_SCOPE_HOST: loopback
        address_body(V6, 64, 0, 253, attribute(1, bytes(16))),  # of the link
        address_body(V4, 24, 0x20, 0, attribute(2, OWN)),  # deprecated
        address_body(V6, 64, 0x40, 0, attribute(1, bytes(16))),  # tentative
        address_body(7, 24, 0, 0, attribute(2, OWN)),
        address_body(V4, 24, 0, 0),
        address_body(V4, 24, 0, 0, struct.pack("=HH", 0, 2)),  # a length that leads nowhere
    ],
)
def test_what_is_no_address_to_probe(body: bytes) -> None:
    assert addresses._parse(body) is None


def test_a_dump_is_read_to_its_end_in_as_many_parts_as_come(monkeypatch: pytest.MonkeyPatch) -> None:
    one = message(20, address_body(V4, 24, 0, 0, attribute(3, b"odd\0\0"), attribute(2, OWN)))
    two = message(20, address_body(V4, 16, 0, 0, attribute(2, PEER)))
    other = message(16, bytes(16))  # RTM_NEWLINK
    parts = [one + other + two, two + message(3, bytes(4)) + one]
    asked: list[bytes] = []

    class Netlink:
        def sendto(self, data: bytes, _to: Any) -> None:
            asked.append(data)

        def recv(self, _size: int) -> bytes:
            return parts.pop(0)

        def settimeout(self, seconds: float) -> None:
            assert seconds >= 1

        def close(self) -> None:
            parts.append(b"closed")

    monkeypatch.setattr("netprobe.probe.agent.addresses.socket.socket", lambda *_arguments: Netlink())
    assert [entry["prefix"] for entry in addresses._dump()] == [24, 16, 16]
    assert parts == [b"closed"]
    # RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, of every family, and its length (linux/netlink.h)
    assert len(asked[0]) == 24 and struct.unpack_from("=IHH", asked[0]) == (24, 22, 0x301)
    assert asked[0][16] == 0


def test_addresses_are_ipv4_first_and_the_preferred_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def dumped() -> list[dict[str, Any]]:
        names = ("2001:db8::1", "10.0.0.1", "2001:db8::2", "10.0.0.2")
        return [{"address": name, "prefix": 24, "interface": "eth0"} for name in names]

    prefers: dict[int, str | None] = {V4: "10.0.0.2", V6: "2001:db8::2"}
    monkeypatch.setattr(addresses, "_dump", dumped)
    monkeypatch.setattr(addresses, "_preferred", lambda family: prefers[int(family)])
    found = [(entry["address"], entry["preferred"]) for entry in addresses.list_addresses()]
    assert found == [("10.0.0.2", True), ("10.0.0.1", False), ("2001:db8::2", True), ("2001:db8::1", False)]

    def refused() -> None:
        raise OSError(errno.EPERM, "a sandbox")

    monkeypatch.setattr(addresses, "_dump", refused)
    entries = addresses.list_addresses()
    assert [(e["address"], e["prefix"], e["preferred"]) for e in entries] == [
        ("10.0.0.2", 32, True),
        ("2001:db8::2", 128, True),
    ]
    prefers[V6] = None
    assert [entry["address"] for entry in addresses.list_addresses()] == ["10.0.0.2"]


def test_shares_of_processor_time_are_of_what_passed_between_two_looks() -> None:
    # user nice system idle iowait irq softirq steal, as proc(5) has them
    before = [100, 0, 50, 800, 50, 0, 0, 10]
    now = [130, 5, 60, 840, 60, 0, 0, 15]
    steal, busy = audit._shares(before, now)
    assert steal == pytest.approx(5 / 100) and busy == pytest.approx(0.5)
    assert audit._shares(None, now) == audit._shares(now, None) == audit._shares(now, now) == (None, None)
    # iowait may fall (proc(5)): that is no time that passed.
    assert audit._shares(before, [200, 0, 50, 900, 40, 0, 0, 10]) == (0.0, 0.5)
    ticks = audit._cpu_ticks()
    with open("/proc/stat") as stream:
        assert ticks is not None and len(ticks) == 8
        assert all(abs(a - int(b)) < 1000 for a, b in zip(ticks, stream.readline().split()[1:9]))


def test_the_delay_of_naps_is_what_is_beyond_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0, 0]

    def sleep(seconds: float) -> None:
        clock[1] += 1
        clock[0] += round(seconds * 1e9) + 1000 * clock[1]

    monkeypatch.setattr(audit, "time", SimpleNamespace(monotonic_ns=lambda: clock[0], sleep=sleep))
    # Delays of 1 to 50 us: of fifty the 26th is the upper median, the largest the 99th percentile.
    assert audit._nap_delays() == (26_000, 50_000)


def test_a_word_of_a_file_is_stripped_and_nothing_is_null(tmp_path: Any) -> None:
    path = tmp_path / "word"
    path.write_text("tsc\n")
    assert audit._word(str(path)) == "tsc"
    path.write_text("\n")
    assert audit._word(str(path)) is None and audit._word(str(tmp_path / "none")) is None


def test_a_programs_first_line_within_its_time(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(text: str) -> None:
        path = tmp_path / "prog"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"relative:{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(audit, "PROGRAM_TIMEOUT_S", 60.0)
    script('echo "  prog 1.2 $1 $LC_ALL "; echo more; echo bad >&2; exec sleep 60')
    assert audit._first_line(("prog", "--version")) == "prog 1.2 --version C"
    script("echo on the error output >&2")
    assert audit._first_line(("prog",)) is None
    script("printf 'no end of line'")
    assert audit._first_line(("prog",)) == "no end of line"
    monkeypatch.setattr(audit, "PROGRAM_TIMEOUT_S", 0.2)
    script("exec sleep 60")
    began = time.monotonic()
    assert audit._first_line(("prog",)) is None and 0.15 < time.monotonic() - began < 30
    assert audit._first_line(("no-such-program-here",)) is None
    (tmp_path / "folder").mkdir()
    assert audit._find("folder") is None and audit._find("prog") == f"{tmp_path}/prog"


def test_an_interface_has_its_mtu_driver_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"address": "10.0.0.7", "interface": "eth7"}, {"address": "10.0.0.8", "interface": "x" * 16}]
    monkeypatch.setattr(addresses, "list_addresses", lambda: entries)
    speed = [10_000]

    def told(_sock: Any, request: int, data: bytes) -> bytes:
        assert data[:16].rstrip(b"\0") == b"eth7" and request == 0x8921  # SIOCGIFMTU
        return data[:16] + struct.pack("i", 9001) + data[20:]

    def ethtool(_sock: Any, name: str, command: int, size: int) -> bytes:
        if command == 3:  # ETHTOOL_GDRVINFO: 32 bytes of name after the command
            return struct.pack("I32s", 3, b"ena").ljust(size, b"\1")
        # ETHTOOL_GSET: speed at byte 12, its upper half at byte 28 (struct ethtool_cmd)
        data = bytearray(b"\x07" * size)
        struct.pack_into("H", data, 12, speed[0] & 0xFFFF)
        struct.pack_into("H", data, 28, speed[0] >> 16)
        return bytes(data)

    monkeypatch.setattr(fcntl, "ioctl", told)
    monkeypatch.setattr(audit, "_ethtool", ethtool)
    known = {"interface": "eth7", "mtu": 9001, "driver": "ena"}
    assert audit._interface("10.0.0.7") == {**known, "speed": 10_000}
    speed[0] = 400_000
    assert audit._interface("10.0.0.7")["speed"] == 400_000
    for unknown in (0, 0xFFFF, 0xFFFFFFFF):
        speed[0] = unknown
        assert audit._interface("10.0.0.7")["speed"] is None
    nothing = {"mtu": None, "driver": None, "speed": None}
    assert audit._interface("10.0.0.9") == {"interface": None, **nothing}
    assert audit._interface("10.0.0.8") == {"interface": "x" * 16, **nothing}


class Ran:
    """Stands for a child process: what it was called with, and how long it was waited for."""

    calls: list[tuple[list[str], int, float]]
    says: list[tuple[bytes, int]]

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.process = SimpleNamespace(returncode=None)

    def read(self, limit: int, until: float) -> bytes:
        output, code = self.says.pop(0)
        self.process.returncode = code
        self.calls.append((self.argv, limit, until - time.monotonic()))
        return output


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> type[Ran]:
    Ran.calls, Ran.says = [], []
    for module in (fping, iperf3):
        monkeypatch.setattr(module, "Child", Ran)
    monkeypatch.setattr(fping, "_program", lambda: "fping")
    return Ran


def test_fping_is_called_with_what_was_asked(ran: type[Ran]) -> None:
    asked: dict[str, Any] = {
        "address": "10.0.0.2", "count": 20, "interval_ns": 2_500_000, "timeout_ns": 10**9, "bound": False,
        "source": "10.0.0.1", "limit_s": 30,
    }  # fmt: skip
    ran.says += [(b"10.0.0.2 : 0.1 \xff-\n", 1), (b"", 0)]
    answer, nothing = fping.run(asked, {})
    assert answer == {"type": "report", "code": 1, "output": "10.0.0.2 : 0.1 ?-\n"} and nothing is None
    argv, _limit, seconds = ran.calls[0]
    assert " ".join(argv) == "fping -4 -D -C 20 -p 2.5 -i 1 -t 1000 10.0.0.2"
    assert 25 < seconds <= 30
    fping.run({**asked, "address": "2001:db8::2", "bound": True, "interval_ns": 10_000}, {})
    assert " ".join(ran.calls[1][0]) == "fping -6 -D -C 20 -p 1 -i 1 -t 1000 -S 10.0.0.1 2001:db8::2"


def test_fpings_version_comes_with_an_echo_to_the_host_itself(ran: type[Ran]) -> None:
    ran.says += [(b"\n fping: Version 5.1\nmore", 0), (b"10.0.0.1 : 0.02\n", 3)]
    answer, _ = fping.version({"address": "10.0.0.1"}, {})
    assert answer == {
        "type": "version", "output": "fping: Version 5.1", "code": 0, "tried": "10.0.0.1 : 0.02", "tried_code": 3,
    }  # fmt: skip
    assert [" ".join(argv) for argv, _limit, _s in ran.calls] == [
        "fping --version",
        "fping -4 -C 1 -t 200 10.0.0.1",
    ]
    ran.says += [(b"", NOT_FOUND)]
    with pytest.raises(OSError) as raised:
        fping.version({"address": "10.0.0.1"}, {})
    assert raised.value.errno == errno.ENOENT


def test_iperf3_is_called_with_what_was_asked(ran: type[Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {
        "address": "10.0.0.2", "port": 5301, "streams": 4, "bytes": 0, "seconds": 3, "source": "127.0.0.1",
        "limit_s": 9,
    }  # fmt: skip
    ran.says += [(b"{}", 0)] * 3
    answer, _ = iperf3.send(asked, {})
    assert answer == {"type": "report", "code": 0, "output": "{}"}
    iperf3.send({**asked, "bytes": 1 << 20, "source": "192.0.2.7"}, {})  # none of this host's
    assert [" ".join(argv) for argv, _limit, _s in ran.calls] == [
        "iperf3 -c 10.0.0.2 -p 5301 -J -i 0 -P 4 -t 3 -B 127.0.0.1",
        f"iperf3 -c 10.0.0.2 -p 5301 -J -i 0 -P 4 -n {1 << 20}",
    ]
    assert all(5 < seconds <= 9 for _argv, _limit, seconds in ran.calls)
    assert iperf3.version({}, {})[0] == {"type": "version", "output": "{}"}
    ran.says += [(b"", NOT_FOUND)]
    with pytest.raises(OSError):
        iperf3.version({}, {})


def test_iperf3_listens_is_read_of_the_kernels_tables() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
        assert not iperf3._listens(port)
        sock.listen(1)
        assert iperf3._listens(port)
    assert not iperf3._listens(port)


def test_a_flow_that_was_never_expected_or_cannot_be_is_refused() -> None:
    token = "00" * 16
    flow = {
        "token": token,
        "streams": 1,
        "slice_ns": 1,
        "limit_ns": 10**9,
        "address": "127.0.0.1",
        "ports": [0, 0],
    }
    for bad in ({"token": "00" * 15}, {"streams": 0}, {"streams": 129}):
        with pytest.raises(ValueError):
            flow_tasks.serve({**flow, **bad}, {})
    resources: dict[str, Any] = {}
    with pytest.raises(ValueError):
        flow_tasks.collect({"token": token, "wait_ns": 1}, resources)
    port = flow_tasks.serve(flow, resources)[0]["port"]
    assert flow_tasks.serve({**flow, "token": "01" * 16, "streams": 128}, resources)[0]["port"] == port
    receiver = resources["flows"].expected[bytes.fromhex(token)]
    assert (receiver.slice_ns, receiver.limit_ns) == (1_000_000, 10**9)
    began = time.monotonic()
    answer, _ = flow_tasks.collect({"token": token, "wait_ns": 50_000_000}, resources)
    assert 0.04 < time.monotonic() - began < 30
    assert (answer["ended"], answer["streams"], answer["marks"], answer["reads"]) == (False, 0, [], [0])
    with pytest.raises(ValueError):
        flow_tasks.collect({"token": token, "wait_ns": 1}, resources)  # it is forgotten
    assert flow_tasks.close({}, resources)[0] == {"type": "closed"} and "flows" not in resources
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)) != 0
