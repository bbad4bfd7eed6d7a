"""Whole scans with agents on this machine, and everything that can go wrong with them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netprobe.core.documents.scan import Scan
from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.probe.launchers.exec_launcher import ExecLauncher, LocalLauncher
from netprobe.probe.methods.blocked import BY_TCP
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.records.events import (
    AgentsUp,
    Event,
    HostFailed,
    HostUp,
    RoundDone,
    ScanWarning,
    VisitDone,
)
from netprobe.probe.records.journal import Journal, read_journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.rounds.chooser import Extent, Results
from netprobe.probe.rounds.circle import Link
from netprobe.probe.scan import session
from netprobe.probe.scan.session import Phase, ScanLog, measure, run_scan
from tests.probe.conftest import agents_of, hosts_named, is_running, wait_until

# An answer that comes late on a busy machine is an answer: only where none can come is the time-out short.
QUICK = ScanOptions(probes_per_visit=20, interval_s=0.0005, timeout_s=10)
ON_LOOPBACK = hosts_named("a", address="127.0.0.1") + hosts_named("b", address="127.0.0.2")


@pytest.fixture(autouse=True)
def no_agent_is_left() -> Iterator[None]:
    yield
    assert agents_of(os.getpid()) == []


def through_sh(script: str) -> ExecLauncher:
    """Runs ``script`` in sh with the agent's command as its arguments and the host as $0."""
    return ExecLauncher(f"sh -c '{script}' {{name}}")


def test_a_scan_on_this_machine_fills_the_document(tmp_path: Path) -> None:
    events: list[Event] = []
    hosts = hosts_named("a", "b", "c")
    with Journal(tmp_path / "j", hosts, QUICK.as_dict()) as journal:
        outcome = run_scan(
            hosts, LocalLauncher(), QUICK, log=ScanLog(journal=journal), on_event=events.append
        )
    scan = outcome.scan
    assert (scan.status, scan.reason, scan.rounds, len(scan.visits)) == ("ok", None, 6, 6)
    assert Scan.model_validate(scan.model_dump(by_alias=True)).status == "ok"
    assert np.isfinite(scan.rtt_s.p10).sum() == 6 and np.nanmax(scan.loss_ratio) == 0
    assert all(v.stamps == "kernel" and (v.sent, v.received) == (20, 20) for v in scan.visits)
    assert [h.address for h in scan.hosts] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    agent = scan.hosts[0].agent
    assert agent is not None and agent.python.startswith(f"{sys.version_info.major}.")
    assert outcome.samples["visit_start"][-1] == sum(v.samples for v in scan.visits)
    recorded = read_journal(tmp_path / "j")
    assert {(v.src, v.dst) for v in recorded.visits} == {(a, b) for a in range(3) for b in range(3) if a != b}
    kinds = [type(event) for event in events]
    assert kinds.count(HostUp) == 3 and kinds.count(AgentsUp) == 1 and kinds.count(VisitDone) == 6
    last = [event for event in events if isinstance(event, RoundDone)][-1]
    assert (last.rounds_done, last.rounds_total, last.links_done, last.links_total) == (6, 6, 6, 6)
    assert last.left_s == 0


def test_auto_goes_on_with_tcp_only_where_no_udp_passes_and_the_journal_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto, hosts = replace(QUICK, latency="auto"), hosts_named("a", "b", "c")
    usual = run_scan(hosts, LocalLauncher(), auto).scan
    assert (usual.measurements[0].method, len(usual.visits), BY_TCP in usual.warnings) == ("stamp", 6, False)

    async def nothing_by_udp(*_: object) -> bool:
        return True

    monkeypatch.setattr(session, "only_tcp_passes", nothing_by_udp)
    with Journal(tmp_path / "j", hosts, auto.as_dict()) as journal:
        scan = run_scan(hosts, LocalLauncher(), auto, log=ScanLog(journal=journal)).scan
    assert (scan.status, scan.measurements[0].method, len(scan.visits)) == ("ok", "tcp-connect", 6)
    assert BY_TCP in scan.warnings
    record = read_journal(tmp_path / "j")
    assert record.options["latency"] == "tcp"
    # Readings by UDP are never joined by others: a scan that goes on keeps its method.
    visits = [replace(v, stamps="kernel") for v in record.visits][:2]
    resumed = run_scan(hosts, LocalLauncher(), auto, log=ScanLog(resumed=visits)).scan
    assert resumed.measurements[0].method == "stamp"


def test_a_pair_is_visited_once_from_each_end_in_rounds_far_apart() -> None:
    scan = run_scan(hosts_named("a", "b", "c", "d"), LocalLauncher(), QUICK).scan
    rounds = {(v.src, v.dst): v.round for v in scan.visits}
    assert len(rounds) == 12
    assert all(abs(rounds[s, d] - rounds[d, s]) == 3 for s, d in rounds)
    assert {v.beside for v in scan.visits} == {1}


def test_one_host_gives_a_trivial_scan() -> None:
    outcome = run_scan(hosts_named("a"), LocalLauncher(), QUICK)
    assert outcome.scan.status == "ok" and outcome.scan.visits == []
    assert outcome.scan.rtt_s.p10.shape == (1, 1)


def test_an_unreachable_host_costs_its_own_cells(tmp_path: Path) -> None:
    launcher = through_sh('test "$0" = c && { echo "no route, sorry" >&2; exit 9; }; exec "$@"')
    hosts = (*ON_LOOPBACK, *hosts_named("c", address="127.0.0.3"))
    events: list[Event] = []
    scan = run_scan(hosts, launcher, QUICK, on_event=events.append).scan
    assert scan.status == "partial" and scan.reason == "1 of 3 hosts unreachable"
    assert [h.status for h in scan.hosts] == ["ok", "ok", "unreachable"]
    assert scan.hosts[2].reason is not None and "no route, sorry" in scan.hosts[2].reason
    assert np.isfinite(scan.rtt_s.p10[:2, :2]).sum() == 2 and np.isnan(scan.rtt_s.p10[2]).all()
    assert [e.host for e in events if isinstance(e, HostFailed)] == ["c"]


def test_a_noisy_login_shell_does_not_matter() -> None:
    launcher = through_sh(
        'echo "Welcome {{friend}}"; echo banner >&2; exec "$@"'.replace("{{friend}}", "friend")
    )
    assert run_scan(ON_LOOPBACK, launcher, QUICK).scan.status == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "reason", "wait_s"),
    [
        ("exec no-such-python", r"a, b: no Python on the host \(python3 not found\)", 60),
        ("exec sleep 60", "no answer from the agent within 1 s", 1),
        ("exit 0", "the stream ended before the agent answered", 60),
        ("exec cat /dev/zero", "printed more than", 60),
    ],
)
def test_when_no_host_can_be_reached_each_reason_is_named(script: str, reason: str, wait_s: float) -> None:
    options = ScanOptions(start_timeout_s=wait_s, probes_per_visit=5)
    with pytest.raises(NothingMeasuredError, match=reason):
        run_scan(ON_LOOPBACK, through_sh(script), options)


def test_no_python_under_the_given_name_is_said() -> None:
    options = ScanOptions(python="/no/such/python3")
    with pytest.raises(NothingMeasuredError, match="no Python on the host .*--python PATH"):
        run_scan(ON_LOOPBACK, LocalLauncher(), options)
    with pytest.raises(InputError, match="--python"):
        run_scan(ON_LOOPBACK, LocalLauncher(), ScanOptions(python=" "))


def test_a_remote_that_answers_the_marker_and_then_garbage_is_told_apart() -> None:
    # It finds the nonce in the stream it is sent, as a hostile host could.
    code = (
        "import os,re,sys;d=b'';n=None;os.write(1,b'\\nnetprobe-ready\\n')\n"
        "while not n:\n"
        ' d+=os.read(0,65536);n=re.search(b\'"nonce":"([0-9a-f]+)"\',d)\n'
        "n=n.group(1)\n"
        "os.write(1,b'\\nnetprobe-agent '+n+b'\\n'+b'\\xff'*100)\n"
        "sys.stdin.buffer.read()"
    )
    launcher = ExecLauncher("env {name}=1")
    launcher.words = [sys.executable, "-c", code, "{name}"]
    launcher.placeholders = {"name"}
    with pytest.raises(NothingMeasuredError, match="no netprobe agent answers: frame of unknown kind 255"):
        run_scan(ON_LOOPBACK, launcher, QUICK)


class Watch:
    """An ``on_event`` that does something once, after some visits."""

    def __init__(self, visits: int, action: Callable[[], None]) -> None:
        self.left = visits
        self.action = action
        self.failed: list[HostFailed] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, HostFailed):
            self.failed.append(event)
        if isinstance(event, VisitDone):
            self.left -= 1
            if self.left == 0:
                self.action()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGKILL, "the agent ended"), (signal.SIGSTOP, "the agent hangs")]
)
def test_an_agent_that_dies_or_hangs_costs_its_own_cells(number: signal.Signals, reason: str) -> None:
    # Half a lease without an answer is a hang: what is killed is noticed without one.
    lease_s = 60.0 if number == signal.SIGKILL else 8.0
    options = ScanOptions(probes_per_visit=20, interval_s=0.0005, timeout_s=1.0, lease_s=lease_s)
    watch = Watch(2, lambda: os.kill(agents_of(os.getpid())[0], number))
    scan = run_scan(hosts_named("a", "b", "c", "d"), LocalLauncher(), options, on_event=watch).scan
    assert scan.status == "partial" and [event.reason.startswith(reason) for event in watch.failed] == [True]
    (victim,) = [i for i, host in enumerate(scan.hosts) if host.status == "failed"]
    assert scan.hosts[victim].reason == watch.failed[0].reason
    others = [i for i in range(4) if i != victim]
    assert np.isfinite(scan.rtt_s.p10[np.ix_(others, others)]).sum() == 6
    assert all(scan.hosts[i].status == "ok" for i in others)
    # Also those that could not be made, each with its reason; some of them twice.
    assert len({(v.src, v.dst) for v in scan.visits}) == 12
    lost = [v for v in scan.visits if v.samples == 0]
    assert lost and all(v.reason for v in lost)


def test_a_host_that_answers_no_probe_has_null_cells_and_a_loss_of_one() -> None:
    # 192.0.2.0/24 is nobody's (RFC 5737): the agent of b serves all addresses, and no probe finds it.
    hosts = (
        *ON_LOOPBACK[:1],
        *hosts_named("b", address="192.0.2.77"),
        *hosts_named("c", address="127.0.0.3"),
    )
    options = ScanOptions(probes_per_visit=5, interval_s=0.0005, timeout_s=0.1)
    scan = run_scan(hosts, LocalLauncher(), options).scan
    assert scan.status == "partial"
    assert scan.hosts[1].status == "partial"
    assert np.isnan(scan.rtt_s.p10[0, 1])
    visit = next(v for v in scan.visits if (v.src, v.dst) == ("a", "b"))
    assert visit.received == 0 and visit.reason is not None
    assert visit.sent == 0 or scan.loss_ratio[0, 1] == 1.0


class OddChooser:
    """Asks for a link twice, then for one to a host that never came up."""

    def __init__(self) -> None:
        self.requests = 0
        self.seen: list[Results] = []

    def next_round(self, results: Results) -> Sequence[Link] | None:
        self.seen.append(results)
        self.requests += 1
        return [[Link(0, 1)], [Link(0, 1)], [Link(1, 2)], None][self.requests - 1]

    def extent(self) -> Extent | None:
        return None


def test_a_chooser_sees_what_was_measured_and_may_repeat_a_link() -> None:
    launcher = through_sh('test "$0" = c && exit 1; exec "$@"')
    hosts: tuple[Host, ...] = (*ON_LOOPBACK, *hosts_named("c"))
    chooser = OddChooser()
    scan = run_scan(
        hosts, launcher, QUICK, phases=[Phase(method=latency_method(QUICK), chooser=chooser)]
    ).scan
    assert [len(results.visits) for results in chooser.seen] == [3] * 4  # one list, seen as it grows
    assert chooser.seen[0].alive == {0, 1} and chooser.seen[0].hosts == 3
    assert [(v.src, v.dst, v.round) for v in scan.visits] == [("a", "b", 0), ("a", "b", 1), ("b", "c", 2)]
    assert scan.visits[2].reason is not None and scan.visits[2].reason.startswith("c: ")
    assert (scan.visits[2].sent, scan.visits[2].beside) == (0, 0)


def test_what_a_launcher_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    launcher = through_sh(f"sleep 60 & echo $! >> {pids}; exit 7")
    with pytest.raises(NothingMeasuredError, match="exit code 7"):
        run_scan(ON_LOOPBACK, launcher, QUICK)
    assert wait_until(lambda: not any(map(is_running, map(int, pids.read_text().split()))), 30)


def test_a_bad_template_starts_nothing() -> None:
    with pytest.raises(InputError, match="target"):
        run_scan(ON_LOOPBACK, ExecLauncher("env"), QUICK)


def test_stopping_in_the_middle_of_the_start_leaves_no_process() -> None:
    async def main() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.15, stop.set)
        measuring = measure(ON_LOOPBACK, through_sh("exec sleep 600"), options=options, stop=stop)
        outcome = await asyncio.wait_for(measuring, 60)  # and not the start time-out
        assert outcome.interrupted and outcome.scan.status == "failed"

    options = ScanOptions(start_timeout_s=500, probes_per_visit=5)
    asyncio.run(main())


@pytest.fixture
def start_scan(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], list[int], Path]]]:
    """Starts a scan of ten rounds of one and a half seconds in another process and waits for the first of them."""
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], list[int], Path]:
        script = Path(__file__).parent.with_name("scan_process.py")
        journal = tmp_path / "journal"
        running = subprocess.Popen(
            [sys.executable, str(script), str(journal), "6", "0.03"], stdout=subprocess.PIPE, text=True
        )
        started.append(running)
        assert running.stdout is not None
        for _ in range(3):
            assert running.stdout.readline() == "visit\n"
        agents = agents_of(running.pid)
        assert len(agents) == 6
        return running, agents, journal

    yield start
    for running in started:
        running.kill()
        running.communicate()


StartScan = Callable[[], tuple["subprocess.Popen[str]", list[int], Path]]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_scan_ends_cleanly_long_before_its_last_round(
    start_scan: StartScan, number: signal.Signals
) -> None:
    running, agents, journal = start_scan()
    running.send_signal(number)
    said, _ = running.communicate(timeout=60)
    assert said.splitlines()[-1] == "interrupted=True status=partial"
    assert running.returncode == 0
    assert not any(map(is_running, agents))
    assert 3 <= len(read_journal(journal).visits) < 30


@pytest.mark.slow
def test_a_killed_controller_leaves_no_agent_and_a_readable_journal(start_scan: StartScan) -> None:
    running, agents, journal = start_scan()
    running.kill()
    assert wait_until(lambda: not any(map(is_running, agents)), 60)
    record = read_journal(journal)
    assert len(record.visits) >= 3
    assert all(visit.rtt_s.size > 0 for visit in record.visits)


def test_a_full_disk_costs_the_journal_and_not_the_scan(tmp_path: Path) -> None:
    events: list[Event] = []
    hosts = hosts_named("a", "b", "c")
    options = ScanOptions(probes_per_visit=5)
    with Journal(tmp_path / "journal", hosts, options.as_dict()) as journal:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, journal._fd)
        os.close(full)
        scan = run_scan(
            hosts, LocalLauncher(), options, log=ScanLog(journal=journal), on_event=events.append
        ).scan
    assert scan.status == "ok"
    assert not np.isnan(scan.rtt_s.p10[0, 1])
    warned = [event.text for event in events if isinstance(event, ScanWarning)]
    assert sum("journal ends here" in text for text in warned) == 1
