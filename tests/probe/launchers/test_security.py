"""What docs/security.md says, as far as it can be tested: of the ports, of what is left, and of hostile hosts."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.cli.entry import run
from netprobe.probe.agent.messages import ProtocolError
from netprobe.probe.agent.stamp import packet, reply_rate
from netprobe.probe.agent.stamp.reflector import Reflector
from netprobe.probe.agent.stamp.reply_rate import ReplyRate
from netprobe.probe.agent.stamp.sender import Probing, Series
from netprobe.probe.fleet.connection import parse_hello
from netprobe.probe.fleet.fleet import opened_port
from tests.probe import hostile_agent
from tests.probe.conftest import AgentProcess, agents_of, wait_until

TOKEN = bytes(range(16))
# The one that says hello slower and slower takes the whole start time-out, and is in a scan with a short one.
HOSTILE = [role for role in (*hostile_agent.BEFORE_THE_MARKER, *hostile_agent.ROLES) if role != "slow"]
GOOD = ["good1", "good2", "good3"]
SECOND = 10**9


@pytest.fixture(scope="module")
def reflector() -> Iterator[Reflector]:
    made = Reflector("127.0.8.1", (0, 0), TOKEN, "kernel")
    yield made
    made.close()


@contextlib.contextmanager
def client(source: str = "127.0.8.2") -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sock.settimeout(60)
        yield sock


# The probe port.


def test_the_port_is_bound_to_the_probed_address_alone(reflector: Reflector) -> None:
    assert reflector.sock.getsockname() == ("127.0.8.1", reflector.port)
    with client() as sock:
        sock.connect(("127.0.8.3", reflector.port))
        sock.send(packet.build_probe(1, 1, 0, TOKEN))
        with pytest.raises(ConnectionRefusedError):
            sock.recv(2048)


@given(st.binary(max_size=200), st.integers(0, 91), st.integers(0, 15))
def test_what_lacks_the_token_gets_no_answer_at_all(
    reflector: Reflector, noise: bytes, cut: int, flip: int
) -> None:
    probe = packet.build_probe(2, 1, 0, TOKEN)
    wrong = bytes(byte ^ (i == flip) for i, byte in enumerate(TOKEN))
    with client() as sock:
        for data in (noise, probe[:cut], packet.build_probe(3, 1, 0, wrong), bytes(92), probe[:44] + noise):
            if TOKEN not in data:
                sock.sendto(data, ("127.0.8.1", reflector.port))
        sock.sendto(probe, ("127.0.8.1", reflector.port))
        # One thread answers in the order of arrival: the first reply would be to one of those.
        reply = packet.parse_reply(sock.recv(65535), 1, TOKEN)
    assert reply is not None and reply.seq == 2


@pytest.mark.parametrize("size", [92, 93, 500, 1472, 2048, 2049, 9000])
def test_a_reply_is_never_longer_than_its_probe(reflector: Reflector, size: int) -> None:
    with client() as sock:
        data = packet.build_probe(1, 1, 0, TOKEN).ljust(size, b"\xa5")
        sock.sendto(data, ("127.0.8.1", reflector.port))
        assert 92 <= len(sock.recv(65535)) <= size


def test_replies_beyond_the_rate_are_not_given(reflector: Reflector) -> None:
    """From any port of the sender: it is the address that counts."""
    far = time.monotonic_ns() + 3600 * SECOND
    reflector.rate.of["127.0.8.4"] = far
    try:
        for source, is_answered in (("127.0.8.4", False), ("127.0.8.5", True)):
            with client(source) as sock:
                sock.settimeout(60 if is_answered else 0.2)
                sock.sendto(packet.build_probe(1, 1, 0, TOKEN), ("127.0.8.1", reflector.port))
                with contextlib.nullcontext() if is_answered else pytest.raises(TimeoutError):
                    sock.recv(2048)
    finally:
        del reflector.rate.of["127.0.8.4"]


def replies(rate: ReplyRate, senders: list[str], every_ns: int, for_ns: int) -> int:
    return sum(rate.allows(senders[i % len(senders)], 5 + i * every_ns) for i in range(for_ns // every_ns))


def test_the_rate_is_the_stated_one_and_above_what_a_scan_asks_for() -> None:
    assert (reply_rate.SENDER_PER_S, reply_rate.ALL_PER_S) == (25000, 50000)
    assert replies(ReplyRate(), ["a"], 50000, 2 * SECOND) == 40000  # the fastest series there is
    fast = replies(ReplyRate(), ["a"], 2000, SECOND)
    assert reply_rate.SENDER_PER_S <= fast <= reply_rate.SENDER_PER_S + reply_rate.SENDER_BURST
    many = replies(ReplyRate(), [f"s{i}" for i in range(50)], 2000, SECOND)
    assert reply_rate.ALL_PER_S <= many <= reply_rate.ALL_PER_S + reply_rate.ALL_BURST
    rate = ReplyRate()
    replies(rate, [f"s{i}" for i in range(9000)], 20000, SECOND // 5)
    assert len(rate.of) <= reply_rate.MAX_SENDERS
    # Whoever was held back is answered again, once there is room.
    assert rate.allows("new", 3 * SECOND)


@pytest.mark.parametrize(("interval_ns", "count"), [(10**6, 200), (50000, 4000)])
def test_no_series_is_held_back(reflector: Reflector, interval_ns: int, count: int) -> None:
    before = reflector.rate.refused
    probing = Probing(count=count, interval_ns=interval_ns, timeout_ns=SECOND, best="kernel")
    series = Series("127.0.8.1", reflector.port, "127.0.8.6", TOKEN, 7, probing)
    result = series.run()
    assert reflector.rate.refused == before
    assert (
        result["sent"] == count and result["received"] > 0
    )  # what is missing, a stalled machine has dropped


@pytest.mark.parametrize(
    ("answer", "ports"),
    [({"port": 8999}, (9000, 9100)), ({"port": 9101}, (9000, 9100)), ({"port": 0}, (0, 0)), ({"port": 70000}, (0, 0)),
     ({"port": "9000"}, (0, 0)), ({"port": 9000, "type": "done"}, (0, 0))],
)  # fmt: skip
def test_a_port_that_was_not_asked_for_is_never_probed(
    answer: dict[str, Any], ports: tuple[int, int]
) -> None:
    with pytest.raises(ProtocolError):
        opened_port({"type": "opened"} | answer, ports)
    assert opened_port({"type": "opened", "port": 9000}, (9000, 9100)) == 9000


# What is left.


def udp_ports() -> set[int]:
    return {int(line.split()[1].rpartition(":")[2], 16) for line in open("/proc/net/udp").readlines()[1:]}


def test_the_port_goes_with_the_agent(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    agent.send(
        {
            "type": "open",
            "id": 1,
            "token": TOKEN.hex(),
            "address": "127.0.8.7",
            "ports": [0, 0],
            "stamps": "user",
        }
    )
    port = agent.next()["port"]
    assert port in udp_ports()
    agent.send({"type": "quit"})
    assert agent.child.wait(60) == 0
    assert port not in udp_ports()


READ_ONLY = (
    'for m in $(cut -d" " -f2 /proc/self/mounts); do mount -o remount,bind,ro "$m" 2>/dev/null; done; '
    'for d in / /tmp /var/tmp /dev/shm; do touch "$d/x" 2>/dev/null && exit 9; done; exec "$@"'
)


def test_an_agent_needs_nothing_that_it_could_write_to(start_agent: Callable[..., AgentProcess]) -> None:
    """A file system without one writable place, as in a pod; what it holds are pipes, sockets and memory."""
    alone = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    agent = start_agent(prefix=(*alone, "sh", "-c", READ_ONLY, "sh"))
    message = {
        "type": "open",
        "id": 1,
        "token": TOKEN.hex(),
        "address": "127.0.8.8",
        "ports": [0, 0],
        "stamps": "kernel",
    }
    agent.send(message)
    port = agent.next()["port"]
    message = {
        "type": "probe",
        "id": 2,
        "token": TOKEN.hex(),
        "address": "127.0.8.8",
        "port": port,
        "source": "127.0.8.8",
    }
    agent.send(
        message | {"ssid": 1, "count": 5, "interval_ns": 10**6, "timeout_ns": 60 * SECOND, "stamps": "kernel"}
    )
    next(agent.frames)  # the samples
    assert agent.next()["received"] == 5
    links = [os.readlink(entry) for entry in Path(f"/proc/{agent.child.pid}/fd").iterdir()]
    assert links and all(link.startswith(("pipe:", "socket:", "/memfd:", "/dev/null")) for link in links), (
        links
    )


# Hostile hosts.


def scan_argv(folder: Path, names: list[str], *args: str, start_s: int = 60) -> list[str]:
    lines = [f"{name} address=127.0.7.{place + 1}\n" for place, name in enumerate(names)]
    hosts = folder.with_suffix(".hosts")
    hosts.write_text("".join(lines))
    python = shlex.join([sys.executable, str(hostile_agent.__file__)])
    argv = [
        sys.executable,
        "-m",
        "netprobe",
        "scan",
        "--hosts",
        str(hosts),
        "--out",
        str(folder),
        "--only",
        "scan",
    ]
    return [
        *argv,
        "--via",
        "env ROLE={name}",
        "--python",
        python,
        "--probes",
        "5",
        "--start-timeout",
        str(start_s),
        *args,
    ]


def is_clean(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.fixture(scope="module")
def hostile_scan(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A scan of three good hosts and one of each hostile kind; its folder, and what it printed."""
    folder = tmp_path_factory.mktemp("hostile") / "out"
    names = [*HOSTILE[::2], *GOOD, *HOSTILE[1::2]]
    running = subprocess.Popen(scan_argv(folder, names), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = running.communicate(timeout=150)
        assert wait_until(lambda: not agents_of(running.pid), 20)
    finally:
        running.kill()
    return folder, subprocess.CompletedProcess([], running.returncode, out.decode(), err.decode())


@pytest.mark.slow
def test_hostile_hosts_cost_themselves_alone(hostile_scan: Any) -> None:
    folder, done = hostile_scan
    assert done.returncode == 3, done.stderr
    scan = json.loads((folder / "scan.json").read_text())
    statuses = {host["name"]: host["status"] for host in scan["hosts"]}
    assert {name for name, status in statuses.items() if status in ("unreachable", "failed")} == {
        *HOSTILE
    } - {"failing"}
    assert statuses["failing"] == "partial"
    place = {host["name"]: i for i, host in enumerate(scan["hosts"])}
    for one in GOOD:
        for other in GOOD:
            if one != other:
                assert 0 < scan["rtt_s"]["p10"][place[one]][place[other]] < 1
    # No reading of a hostile host's is in it.
    for name in HOSTILE:
        assert scan["rtt_s"]["p10"][place[name]] == [None] * len(statuses)


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("noise", "printed more than 262144 bytes before the agent answered"),
        ("stderr", "the stream ended before the agent answered"),
        ("words", "the stream ended before the agent answered (exit code 9): ]0;owned [2J"),
        ("huge", "no netprobe agent answers: frame of 4294967295 bytes: at most 1048576"),
        ("deep", "no netprobe agent answers: a frame that is not JSON"),
        ("types", "no netprobe agent answers: a hello without a list of addresses"),
        ("nested", "no netprobe agent answers: the agent has version a list of the protocol"),
        ("digits", "no netprobe agent answers: a"),
        ("addresses", "no netprobe agent answers: a hello without a list of addresses"),
        ("escapes", "cannot open a probe port: ?]0;owned??[2J?31m[red]x[/red] :bug:??"),
        ("flood", "the agent sent more messages than it was requested to send"),
        ("hang", "the agent hangs: it has not answered for"),
        ("many", "the agent sent more samples than the 3 it was requested to send"),  # on the ring
        ("years", "the agent sent a sample that cannot be"),
        ("port", "cannot open a probe port: a message whose port is '99999'"),
    ],
)
def test_each_has_one_line(hostile_scan: Any, role: str, reason: str) -> None:
    lines = [line for line in hostile_scan[1].stderr.splitlines() if line.startswith(f"{role}: ")]
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{role}: {reason}")


def test_nothing_that_a_terminal_would_act_upon_is_printed_or_written(hostile_scan: Any) -> None:
    folder, done = hostile_scan
    assert is_clean(done.stdout) and is_clean(done.stderr)
    assert "[red]x[/red] :bug:" in done.stdout, "names and reasons are not markup"
    written = [path for path in folder.iterdir() if path.suffix != ".npz"]
    assert len(written) >= 2
    for path in written:
        text = path.read_text()
        assert text.isascii() and is_clean(text), path.name


@pytest.mark.slow
def test_a_slow_host_has_its_line_and_no_escapes_are_in_json_or_on_a_live_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = pty.openpty()
    argv = scan_argv(tmp_path / "live", ["good1", "good2", "escapes", "words"])
    running = subprocess.Popen(
        argv, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "300"}
    )
    os.close(theirs)
    shown = bytearray()

    def look() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                shown.extend(part)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        # Beside it, for it waits for the slow one most of the time.
        argv = scan_argv(
            tmp_path / "json", ["good1", "good2", "slow", "escapes", "words"], "--json", start_s=8
        )
        run(argv[3:])
        said = capfd.readouterr().out
        assert running.wait(150) == 3
    finally:
        running.kill()
        looking.join(60)
        os.close(ours)
    reasons = {host["name"]: host["reason"] for host in json.loads(said)["hosts"]}
    assert reasons["slow"] == "the agent did not say hello within 8 s"
    assert "[red]x[/red] :bug:" in reasons["escapes"]
    assert is_clean(said) and is_clean("".join(filter(None, reasons.values())))
    assert b"\x1b[" in shown, "rich's own, for it is a terminal"
    assert b"[red]x[/red] :bug:" in shown
    for sequence in (b"\x1b]", b"\x07", b"\x1b[2J", "\x9b".encode(), "\u202e".encode()):
        assert sequence not in shown


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["type", "protocol", "agent", "python", "hostname", "kernel", "pid", "addresses"])
entries = st.dictionaries(st.sampled_from(["address", "prefix", "interface", "preferred"]), anything)


@given(st.dictionaries(keys, anything, max_size=3), st.none() | st.lists(entries, max_size=3))
def test_whatever_a_hello_holds_is_refused_or_made_printable(changes: dict[str, Any], listed: Any) -> None:
    message = hostile_agent.hello() | changes | ({} if listed is None else {"addresses": listed})
    try:
        found = parse_hello(message)
    except ProtocolError as error:
        assert str(error).isprintable() and len(str(error)) < 1000
        return
    shown = [found.agent.hostname, found.agent.kernel, found.agent.python, found.agent.version]
    shown += [text for entry in found.addresses for text in (entry.address, entry.interface)]
    assert all(text.isprintable() and len(text) <= 300 for text in shown)
