"""Ranks that find each other before there is a process group, and plans without hosts that do not run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from netprobe.core.errors import InputError, WrongWorldError
from netprobe.core.hosts import Host
from netprobe.pipeline import files
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.runtime import world
from netprobe.runtime.collective import collective_of
from netprobe.runtime.running import job_store, one_each, without
from netprobe.runtime.world import Report, exchange
from tests.runtime import jobs

RANKS = 3


def store_of() -> Any:
    return pytest.importorskip("torch.distributed").HashStore()


def report(rank: int, plan: str = "") -> Report:
    return Report(names=(f"h{rank}",), addresses=(), plan=plan)


def exchanged(store: Any, plan: str, ranks: range = range(RANKS), timeout_s: float = 60.0) -> list[Any]:
    """What each rank got, or the ranks that it misses."""

    def one(rank: int) -> Any:
        try:
            return exchange(store, rank, RANKS, report(rank, plan), timeout_s)
        except WrongWorldError as error:
            return error.ranks

    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(one, ranks))


def test_reports_of_an_earlier_attempt_do_not_count() -> None:
    """A job that torchrun starts again finds what the ranks before it wrote, in the same places."""
    store = store_of()
    words = set()
    for plan in ("first", "second"):
        found = exchanged(store, plan)
        assert [reports for reports, _ in found] == [[report(rank, plan) for rank in range(RANKS)]] * RANKS
        words |= {word for _, word in found}
    assert len(words) == 2


def test_ranks_that_do_not_report_are_named_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of()
    exchanged(store, "first")
    assert exchanged(store, "second", range(2), 0.2) == [(2,), (2,)]
    monkeypatch.setattr(world, "GRACE_S", 0.0)
    assert exchanged(store, "third", range(1, RANKS), 0.1) == [(0,), (0,)]


class Silent:
    """A store whose keeper was stopped."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: threading.Event().wait(60)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_store_that_answers_nothing_ends_the_exchange(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    monkeypatch.setattr(world, "GRACE_S", 0.0)
    with pytest.raises(WrongWorldError, match="does not answer") as raised:
        exchange(Silent(), rank, RANKS, report(rank), 0.05)
    assert raised.value.ranks == (0,)


class Watched:
    """A store that tells when a rank has read what rank 0 collected."""

    def __init__(self, store: Any, read: Callable[[], None]) -> None:
        self._store, self._read = store, read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str) -> Any:
        if key == "all":
            time.sleep(0.1)  # rank 0 would be gone by now
            self._read()
        return self._store.get(key)


def test_rank_0_goes_on_when_all_have_read_the_verdict() -> None:
    """The store of a job of srun or mpirun ends with rank 0, and what reads from it then ends in torch's own error."""
    store, events = store_of(), []

    def one(rank: int) -> None:
        seen = Watched(store, lambda: events.append(rank)) if rank else store
        exchange(seen, rank, RANKS, report(rank), 60.0)
        if rank == 0:
            events.append(0)

    with ThreadPoolExecutor(RANKS) as pool:
        list(pool.map(one, range(RANKS)))
    assert set(events[: events.index(0)]) == {1, 2}


@pytest.mark.parametrize("rank", [0, 1])
def test_a_job_without_a_store_is_refused_in_netprobes_words(
    monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    pytest.importorskip("torch.distributed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if rank:
            taken.close()
        given = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for name, value in given.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
        with pytest.raises(WrongWorldError) as raised:
            job_store(0.2)
    assert raised.value.ranks == (0,)
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(InputError):
        job_store(0.2)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_plan_without_a_host_is_its_algorithm_among_the_others(name: str) -> None:
    plan = jobs.plan_of(build(name, 5, channels=2))
    left = without(plan, ["h1", "h3"])
    found = collective_of(left)
    assert [host.name for host in found.hosts] == ["h0", "h2", "h4"]
    assert found.all_reduces == collective_of(plan).all_reduces
    assert found.schedule.channels == plan.channels
    assert without(plan, []) is plan


@pytest.mark.parametrize("kind", ["2lha", "hierarchical"])
def test_groups_keep_those_that_are_left(kind: str) -> None:
    groups = [[0, 2], [1, 3], [4]]
    made = two_level(groups, 12) if kind == "2lha" else hierarchical(groups)
    named = [[f"h{i}" for i in own] for own in groups]
    usual = jobs.plan_of(made)
    plan = build_schedule_plan(
        made, Placement(hosts=usual.hosts, order=usual.order, groups=named, grouping="natural")
    )
    left = without(plan, ["h2", "h4"])
    assert left.groups == [["h0"], ["h1", "h3"]]  # type: ignore[attr-defined]
    assert collective_of(left).all_reduces
    assert left.algorithm == kind  # type: ignore[attr-defined]


def test_too_few_hosts_and_displaced_ranks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two or more"):
        without(jobs.plan_of(build("chunked-ring", 3)), ["h0", "h1"])
    assert one_each([(1, "b"), (0, "a")]) == [1, 0]
    with pytest.raises(WrongWorldError) as raised:
        one_each([(1, "b"), (None, "x"), (1, "b")])
    assert raised.value.ranks == (1, 2)


def reached(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long  # torchrun notices a host that is gone, and meets again, in a minute or more
def test_torchrun_goes_on_without_a_host_from_the_checkpoint(tmp_path: Path) -> None:
    """An agent of torchrun each for h0, h1 and h2; that of h1 and its rank are killed after three iterations."""
    hosts = [Host(name=f"h{i}") for i in range(3)]
    placement = Placement(hosts=hosts, order=["h2", "h1", "h0"])
    files.save(build_schedule_plan(build("chunked-ring", 3), placement), tmp_path / "plan.json")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    argv = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "2:3", "--nproc-per-node", "1",
        "--max-restarts", "20", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "t",
        "--local-addr", "127.0.0.1",
        "--rdzv-conf", "last_call_timeout=10,keep_alive_interval=10,keep_alive_max_attempt=3",
        str(Path(__file__).with_name("elastic_job.py")), str(tmp_path),
    ]  # fmt: skip
    root = str(Path(__file__).resolve().parents[2])
    usual = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": root}
    agents: list[subprocess.Popen[bytes]] = []
    try:
        for host in hosts:
            agents.append(
                subprocess.Popen(argv, env={**usual, "NETPROBE_HOST": host.name}, stderr=subprocess.DEVNULL)
            )
            # The first agent serves the store in which all meet, and must not be the one that is killed.
            while agents[0].poll() is None and not reached(port):
                time.sleep(0.1)
        for agent in agents:
            agent.wait(400)
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    said = {path.stem: path.read_text() for path in tmp_path.glob("*.done")}
    assert {host: text.split(" from ")[0] for host, text in said.items()} == {"h2": "0 of 2", "h0": "1 of 2"}
    assert all(int(text.split()[-1]) >= 3 for text in said.values())
