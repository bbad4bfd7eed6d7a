"""Which host each running rank is on, compared with a plan; the same answer on every rank."""

from __future__ import annotations

import json
import os
import socket
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from netprobe.core.errors import InputError, WrongWorldError
from netprobe.core.hosts import Host
from netprobe.core.rank_hosts import HostFinder, host_of

NAME_VARIABLES = ("SLURMD_NODENAME", "PMIX_HOSTNAME", "HOROVOD_HOSTNAME")
"""What launchers call the host; NETPROBE_HOST, where it is set, is the only name that counts."""
MOST_SHOWN = 8
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one rank says of itself: its host's names and addresses, the digest of its plan, why it cannot go on."""

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    plan: str = ""
    fault: str = ""

    def text(self) -> str:
        """As JSON."""
        return json.dumps([self.names, self.addresses, self.plan, self.fault])


def own_report(*, plan: str = "", fault: str = "") -> Report:
    """This rank's."""
    given = os.environ.get("NETPROBE_HOST")
    if given:
        return Report(names=(given,), addresses=(), plan=plan, fault=fault)
    names = [os.environ[name] for name in NAME_VARIABLES if os.environ.get(name)]
    names.append(os.uname().nodename)
    return Report(names=tuple(dict.fromkeys(names)), addresses=tuple(own_addresses()), plan=plan, fault=fault)


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


def exchange(store: Any, rank: int, ranks: int, own: Report, timeout_s: float) -> list[Report]:
    """The reports of all ranks, through a store that only this exchange uses.

    Raises WrongWorldError for ranks that did not report in time.
    """
    store.set(f"report {rank}", own.text())
    reports = []
    for other in range(ranks):
        try:
            store.wait([f"report {other}"], timedelta(seconds=timeout_s))
        except Exception as error:
            raise WrongWorldError(
                f"rank {other} did not say where it runs in {timeout_s:g} s: {' '.join(str(error).split())[:200]}",
                ranks=[other],
            ) from None
        names, addresses, plan, fault = json.loads(store.get(f"report {other}"))
        reports.append(Report(names=tuple(names), addresses=tuple(addresses), plan=plan, fault=fault))
    return reports


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
        return dist.get_process_group_ranks(group or dist.group.WORLD), dist.get_rank(group)
    members = list(group)
    if len(set(members)) != len(members) or not set(members) <= set(range(dist.get_world_size())):
        raise InputError(f"ranks {members}: each of 0 to {dist.get_world_size() - 1} at most once is needed")
    if dist.get_rank() not in members:
        raise InputError(
            f"rank {dist.get_rank()} is not among the ranks {members} that it makes an executor for"
        )
    return members, members.index(dist.get_rank())
