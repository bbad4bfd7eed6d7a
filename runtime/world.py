"""Which host each running rank is on, compared with a plan; the same answer on every rank."""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from netprobe.core.errors import InputError, WrongWorldError
from netprobe.core.hosts import Host
from netprobe.core.rank_hosts import HostFinder, host_of
from netprobe.runtime.keeper import NOT_HERE
from netprobe.runtime.within import Patient

NAME_VARIABLES = ("SLURMD_NODENAME", "PMIX_HOSTNAME", "HOROVOD_HOSTNAME")
"""What launchers call the host; NETPROBE_HOST, where it is set, is the only name that counts."""
MOST_SHOWN = 8
GRACE_S = 5.0
"""Ranks wait so much longer than rank 0, which knows better who is missing."""
_PAUSE_S = 0.02
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one rank says of itself: its host's names and addresses, the digest of its plan, why it cannot go on.

    ``keeps``: whether it keeps the job's store (`keeper`).
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    plan: str = ""
    fault: str = ""
    keeps: int = NOT_HERE

    def text(self) -> str:
        """As JSON."""
        return json.dumps([self.names, self.addresses, self.plan, self.fault, self.keeps])


def own_report(*, plan: str = "", fault: str = "", keeps: int = NOT_HERE) -> Report:
    """This rank's."""
    given = os.environ.get("NETPROBE_HOST")
    if given:
        return Report(names=(given,), addresses=(), plan=plan, fault=fault, keeps=keeps)
    names = [os.environ[name] for name in NAME_VARIABLES if os.environ.get(name)]
    names.append(os.uname().nodename)
    return Report(
        names=tuple(dict.fromkeys(names)),
        addresses=tuple(own_addresses()),
        plan=plan,
        fault=fault,
        keeps=keeps,
    )


def own_addresses() -> list[str]:
    """Addresses of this machine's interfaces, without loopback's."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            import fcntl

            for _, name in socket.if_nameindex():
                try:
                    answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                except OSError:
                    continue
                found.append(socket.inet_ntoa(answer[20:24]))
        except (ImportError, OSError):
            return []
    try:
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0])))
    except (OSError, ValueError, IndexError):
        pass
    return [a for a in found if not a.startswith(("127.", "fe80:")) and a != "::1"]


def exchange(store: Any, rank: int, ranks: int, own: Report, timeout_s: float) -> tuple[list[Report], str]:
    """The reports of all ranks, and a word that only this exchange has, through a part of a store.

    A job that is started again may find what an earlier one left there. So rank 0 gives out a word, each rank reports
    under it (again, where the word was an old one), and what rank 0 collected holds only for who finds his own number
    in it. Rank 0, with whose process the store may end, goes on when all have read that: if they then all raise, none
    finds the store gone instead. Raises WrongWorldError for ranks that did not report in time.
    """
    asked = Patient(store, timeout_s + GRACE_S)
    try:
        if rank == 0:
            told = _collected(asked, ranks, own, timeout_s)
            _await_readers(asked, told)
        else:
            told = _reported(asked, rank, own, timeout_s)
    except WrongWorldError:
        raise
    except Exception as error:
        how = "does not answer" if asked.silent else "is gone"
        raise WrongWorldError(
            f"the store of the job {how}: rank 0 of the launcher, or the torchrun of its host, keeps it, and has "
            f"ended, was stopped, or is out of reach ({' '.join(str(error).split())[:200]})",
            ranks=[0],
        ) from None
    if told["missing"]:
        raise _silent(told["missing"], timeout_s)
    reports = []
    for text in told["reports"]:
        names, addresses, plan, fault, keeps = json.loads(text)
        reports.append(
            Report(names=tuple(names), addresses=tuple(addresses), plan=plan, fault=fault, keeps=keeps)
        )
    return reports, str(told["word"])


def _collected(store: Patient, ranks: int, own: Report, timeout_s: float) -> dict[str, Any]:
    """On rank 0: what the ranks said under a new word, told to all."""
    word, deadline = secrets.token_hex(8), monotonic() + timeout_s
    store.ask(lambda store: store.set("word", word))
    said: dict[int, tuple[str, str]] = {0: ("", own.text())}
    while len(said) < ranks:
        rest = [other for other in range(ranks) if other not in said]
        for other, text in zip(rest, _peek(store, [f"report {other}" for other in rest])):
            under, number, report = json.loads(text) if text else ("", "", "")
            if under == word:
                said[other] = (number, report)
        if len(said) < ranks and monotonic() > deadline:
            break
        sleep(_PAUSE_S if len(said) < ranks else 0)
    missing = [other for other in range(ranks) if other not in said]
    told = {
        "word": word,
        "missing": missing,
        "numbers": {other: number for other, (number, _) in said.items()},
        "reports": [] if missing else [said[other][1] for other in range(ranks)],
    }
    store.ask(lambda store: store.set("all", json.dumps(told)))
    return told


def _await_readers(store: Patient, told: dict[str, Any]) -> None:
    """On rank 0: until those that reported have read what was collected, or for `GRACE_S`."""
    keys = [_read_key(told["word"], rank) for rank in told["numbers"] if rank]
    deadline = monotonic() + GRACE_S
    while keys and monotonic() < deadline and not store.ask(lambda store: store.check(keys)):
        sleep(_PAUSE_S)


def _read_key(word: str, rank: int) -> str:
    return f"read {word} {rank}"


def _reported(store: Patient, rank: int, own: Report, timeout_s: float) -> dict[str, Any]:
    """On another rank: report under the word there is, until what rank 0 collected has this rank's number."""
    number, word, deadline = secrets.token_hex(8), None, monotonic() + timeout_s + GRACE_S
    while True:
        now, text = _peek(store, ["word", "all"])
        if now is not None and now != word:
            word = now
            report = json.dumps([word, number, own.text()])
            store.ask(lambda store: store.set(f"report {rank}", report))  # noqa: B023
        told: dict[str, Any] = json.loads(text) if text else {"numbers": {}}
        if told["numbers"].get(str(rank)) == number:
            break
        if monotonic() > deadline:
            raise _silent([0], timeout_s)
        sleep(_PAUSE_S)
    store.ask(lambda store: store.set(_read_key(told["word"], rank), "yes"))
    return told


def _silent(missing: Sequence[int], timeout_s: float) -> WrongWorldError:
    shown = ", ".join(map(str, missing[:MOST_SHOWN])) + (" .." if len(missing) > MOST_SHOWN else "")
    return WrongWorldError(
        f"{'rank' if len(missing) == 1 else 'ranks'} {shown} did not say where it runs in {timeout_s:g} s: it has "
        "ended, was not started, or does not reach the store of the job",
        ranks=list(missing),
    )


def _peek(store: Patient, keys: Sequence[str]) -> list[str | None]:
    """What is there under each key, if anything."""
    return store.ask(lambda s: [str(s.get(key), "utf-8") if s.check([key]) else None for key in keys])


def check_reports(reports: Sequence[Report]) -> None:
    """Raises InputError where a rank has no plan, or another one than rank 0."""
    for rank, report in enumerate(reports):
        if report.fault:
            raise InputError(f"rank {rank}: {report.fault}")
    others = [rank for rank, report in enumerate(reports) if report.plan != reports[0].plan]
    if others:
        raise WrongWorldError(
            f"rank {others[0]} has another plan than rank 0: give all ranks the same document", ranks=others
        )


def places(hosts: Sequence[Host], reports: Sequence[Report]) -> list[tuple[int | None, str]]:
    """Of each rank: the place in ``hosts`` of the host that it is on (None: none of them), and that host's name."""
    finder = HostFinder(hosts)
    found = [host_of(one.names, one.addresses, finder, hosts, {}) for one in reports]
    return [(place.at, place.name) for place in found]


def check_world(hosts: Sequence[Host], reports: Sequence[Report]) -> None:
    """Raises WrongWorldError unless rank r runs on ``hosts[r]``. Warns where no rank's host is one of the plan's."""
    if len(reports) != len(hosts):
        many = len(reports) > len(hosts) and len(reports) % len(hosts) == 0
        hint = (
            "; a plan has one rank per host: start one per host, or reduce among the local ranks first and give the "
            "executor a group of one rank per host"
        )
        raise WrongWorldError(
            f"{len(reports)} ranks run, and the plan is for {len(hosts)}: plan for the hosts of this job"
            + (hint if many else "")
        )
    found = places(hosts, reports)
    if all(at is None for at, _ in found):
        warnings.warn(
            "no rank runs on a host that the plan knows by name or address, so that their order cannot be checked; "
            "NETPROBE_HOST may name each rank's host",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    wrong = [rank for rank, (at, _) in enumerate(found) if at != rank]
    if wrong:
        lines = []
        for rank in wrong[:MOST_SHOWN]:
            at, name = found[rank]
            elsewhere = "" if at is not None else ", which is not in the plan"
            lines.append(f"rank {rank}: planned {hosts[rank].name}, runs on {name}{elsewhere}")
        more = f"; and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
        raise WrongWorldError(
            f"the ranks are not where the plan puts them: {'; '.join(lines)}{more}. "
            "netprobe.runtime.reorder(plan) gives ranks in the plan's order",
            ranks=wrong,
        )


def members_of(group: Any) -> tuple[list[int], int]:
    """The ranks (of the default group) of a process group or a list, and the place of this one. Raises InputError."""
    import torch.distributed as dist

    if not isinstance(group, list | tuple):
        given = dist.group.WORLD if group is None else group
        if not isinstance(given, dist.ProcessGroup):
            # What new_group returns to a rank that it leaves out is no group.
            raise InputError(
                f"{given!r} is no process group that rank {dist.get_rank()} is a member of: only its members make an "
                "executor, and `group` may also be a list of ranks"
            )
        return dist.get_process_group_ranks(given), dist.get_rank(given)
    members = list(group)
    if len(set(members)) != len(members) or not set(members) <= set(range(dist.get_world_size())):
        raise InputError(f"ranks {members}: each of 0 to {dist.get_world_size() - 1} at most once is needed")
    if dist.get_rank() not in members:
        raise InputError(
            f"rank {dist.get_rank()} is not among the ranks {members} that it makes an executor for"
        )
    return members, members.index(dist.get_rank())
