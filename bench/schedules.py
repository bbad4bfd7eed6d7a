"""What schedules cost: building, compiling and proving 2LHA and other algorithms, and simulating them (CPU seconds)."""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import time

import numpy as np
from _tables import heading, table

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.proof import prove
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Job, Network, simulate

SIZE, RATE, UPLINK, ALPHA = 100_000_000, 1.25e9, 2.5e9, 50e-6
CHUNKS = 1600
CASES = (("2lha", 64), ("2lha", 512), ("chunked-ring", 64), ("chunked-ring", 512), ("halving-doubling", 512))


def racks(hosts: int) -> list[list[int]]:
    """Racks of 8."""
    return [list(range(first, first + 8)) for first in range(0, hosts, 8)]


def schedule_of(name: str, hosts: int) -> Schedule:
    """2LHA on 64 KB chunks of 100 MB, or another algorithm on its own chunks."""
    return two_level(racks(hosts), CHUNKS) if name == "2lha" else build(name, hosts)


def network(hosts: int) -> Network:
    """10 Gbit/s a host, racks of 8 on 20 Gbit/s: 4:1."""
    rack = np.arange(hosts) // 8
    count = hosts // 8
    names = [f"{kind}:{i}" for kind in ("tx", "rx") for i in range(hosts)]
    names += [f"{kind}:{i}" for kind in ("up", "down") for i in range(count)]
    capacity = np.array([RATE] * 2 * hosts + [UPLINK] * 2 * count)
    passed = np.full((hosts, hosts, 4), -1, dtype=np.intp)
    passed[:, :, 0], passed[:, :, 3] = np.arange(hosts)[:, None], hosts + np.arange(hosts)[None, :]
    across = rack[:, None] != rack[None, :]
    passed[:, :, 1] = np.where(across, 2 * hosts + rack[:, None], -1)
    passed[:, :, 2] = np.where(across, 2 * hosts + count + rack[None, :], -1)
    return Network(
        hosts=tuple(map(str, range(hosts))), alpha_s=np.full((hosts, hosts), ALPHA), resources=tuple(names),
        capacity=capacity, passed=passed, stream=np.full((hosts, hosts), np.inf), low=capacity, high=capacity,
    )  # fmt: skip


def measure(name: str, hosts: int) -> list[str]:
    """One row, in a process of its own so that its memory is its own."""
    at = [time.process_time()]
    schedule = schedule_of(name, hosts)
    schedule.expanded()
    at.append(time.process_time())
    program = compile_schedule(schedule)
    at.append(time.process_time())
    proof = prove(program, schedule.contract)
    at.append(time.process_time())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    net = network(hosts)
    began = time.process_time()
    done = simulate(net, [Job(schedule=schedule, order=net.hosts, size_bytes=SIZE)])
    at.append(time.process_time())
    spent = [f"{b - a:.2f}" for a, b in itertools.pairwise(at[:4])]
    return [
        name, str(hosts), str(len(program)), *spent, f"{memory:.0f} MB", ", ".join(proof.safe_under),
        f"{done.time_s * 1e3:.1f} ms", f"{at[4] - began:.2f}",
    ]  # fmt: skip


def joined_error() -> list[list[str]]:
    """16 hosts in racks of 4: joined blocks and merged events against every event."""
    rows = []
    for uplink in (np.inf, 2 * RATE, RATE / 2):
        whole = network(16)
        capacity = whole.capacity.copy()
        capacity[32:] = uplink
        net = whole.with_capacity(capacity)
        schedule = two_level(racks(16), CHUNKS)
        job = Job(schedule=schedule, order=net.hosts, size_bytes=SIZE)
        exact, near = (simulate(net, [job], exact=kind).time_s for kind in (True, False))
        shown = "none" if np.isinf(uplink) else f"{uplink * 8 / 1e9:.0f} Gbit/s"
        rows.append(
            [shown, f"{exact * 1e3:.2f} ms", f"{near * 1e3:.2f} ms", f"{100 * (near / exact - 1):+.2f} %"]
        )
    return rows


def main() -> None:
    """All cases, each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help="NAME:HOSTS, one row as tabs (used by the table itself)")
    given = parser.parse_args()
    if given.case:
        name, hosts = given.case.split(":")
        print("\t".join(measure(name, int(hosts))))
        return
    heading(f"Schedules of {SIZE / 1e6:.0f} MB, 2LHA in {CHUNKS} chunks, hosts in racks of 8")
    rows = []
    for name, hosts in CASES:
        argv = [sys.executable, __file__, "--case", f"{name}:{hosts}"]
        said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        rows.append(said.strip().split("\t"))
    columns = ["algorithm", "hosts", "actions", "build", "compile", "prove", "peak memory", "safe under"]
    table([*columns, "simulated time", "simulating"], rows)
    print("Joined blocks and merged events against every event, 2LHA among 16 hosts:\n")
    table(["uplinks of 8 hosts", "every event", "joined", "difference"], joined_error())


if __name__ == "__main__":
    main()
