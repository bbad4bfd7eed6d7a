"""The same schedule on the same network takes the same time on every machine and from version to version.

How schedules are made coarser, which events count as one and what uneven shares cost hangs on limits that closed forms
leave open. Who changes one on purpose writes down here what is simulated then.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest

from netprobe.plan.schedule.builders import build
from netprobe.plan.schedule.builders.two_level import two_level
from netprobe.plan.schedule.schedule import Schedule
from netprobe.plan.simulate import Background, Job, Network, simulate
from netprobe.plan.simulate.network import network_of
from netprobe.plan.simulate.simulate import interval_s, joined, least_s, loads, predicted_s, uneven_shares
from tests.maps import made_map
from tests.plan.auto.test_same_results import uneven

RACKS = [[0, 1, 2], [3, 4], [5]]


def network(unevenness: float) -> Network:
    map_ = made_map([3, 2, 1])
    capacity = uneven(map_, 4, 0.25)
    made = network_of(capacity, [host.name for host in map_.hosts])
    rng = np.random.default_rng(9)
    alpha = rng.integers(1, 9, (6, 6)) / 8192
    stream = np.where(rng.random((6, 6)) < 0.3, 4e7, np.inf)
    return replace(made, alpha_s=alpha, stream=stream, unevenness=unevenness)


def schedules() -> dict[str, Schedule]:
    return {
        "chunked-ring": build("chunked-ring", 6, 2, 5),
        "bcube": build("bcube", 6),
        "2lha": two_level(RACKS, 20),
    }


def figures(name: str) -> list[float]:
    """Of one schedule: as it is, coarse, in lockstep, beside others, and with uneven shares."""
    net, schedule = network(0.0), schedules()[name]
    order = list(net.hosts[::-1])
    job = Job(schedule=schedule, order=order, size_bytes=2_000_003)
    whole = simulate(net, [job], exact=True, timeline=True)
    coarse = simulate(net, [job], exact=False)
    merged = simulate(net, [job], merge_s=3e-3)
    locked = replace(job, lockstep=True, release_s=0.125)
    both = simulate(net, [job, locked], [Background("h0", "h4", 3e7), Background("h5", "h1")])
    rough = network(0.4)
    shares = uneven_shares(rough, job)
    small = joined(schedule, 24)
    at = np.arange(1, len(net.resources) + 1)
    return [
        whole.time_s, float(whole.utilisation @ at), float(len(whole.timeline)), float(len(whole.critical_path)),
        coarse.time_s, float(coarse.utilisation @ at), merged.time_s, float(merged.exact), float(coarse.exact),
        both.time_s, *both.finish_s, float(both.utilisation @ at), float(loads(net, job) @ at),
        least_s(net, job), predicted_s(rough, job), *(one or 0.0 for one in interval_s(net, job)),
        *(one or 0.0 for one in interval_s(rough, job)), shares.median, shares.most,
        simulate(rough, [job], draw=1).time_s, float(len(small.blocks)),
        float(zlib.crc32(repr([(b.template, b.channel, b.start, b.weights) for b in small.blocks]).encode())),
    ]  # fmt: skip


EXPECTED: dict[str, list[float]] = {
    "chunked-ring": [
        0.05730088288690477,
        69.78734470172775,
        504.0,
        21.0,
        0.05730083288690476,
        69.79762027912719,
        0.061269234077380934,
        0.0,
        0.0,
        0.22560771666666637,
        0.0898655291666667,
        0.22560771666666637,
        50.72064309163735,
        453333988.0,
        0.05555565,
        0.058933293645096606,
        0.05730088288690477,
        0.05080913239583333,
        0.07104659002976181,
        0.058933293645096606,
        0.05080913239583333,
        0.07385325210951646,
        1.028488404993929,
        1.0395045290502882,
        0.058563189606337294,
        2.0,
        3493197630.0,
    ],
    "bcube": [
        0.05713849505208334,
        82.01995569524472,
        78.0,
        9.0,
        0.05713852005208333,
        82.0200754713629,
        0.05750879166666667,
        0.0,
        0.0,
        0.19361990833333337,
        0.06764334583333335,
        0.19361990833333337,
        60.72699930886892,
        587334255.0,
        0.05555565,
        0.06812963980414463,
        0.05713849505208334,
        0.04602736505208333,
        0.07102740755208334,
        0.06812963980414463,
        0.04602736505208333,
        0.09056007510308621,
        1.19235971724566,
        1.2750018369554015,
        0.071502783695871,
        1.0,
        1055273474.0,
    ],
    "2lha": [
        0.06430999583333333,
        65.59688014222839,
        381.0,
        8.0,
        0.06434362063512813,
        65.60613188086862,
        0.06538195572170419,
        0.0,
        0.0,
        0.2185027541666666,
        0.08764336249999997,
        0.2185027541666666,
        51.819991448686736,
        498600822.0,
        0.06333343333333333,
        0.06542822854752045,
        0.06430999583333333,
        0.05164330916666663,
        0.08014335416666664,
        0.06542822854752045,
        0.05164330916666663,
        0.08805385762435913,
        1.0173881633748687,
        1.0987044220939612,
        0.06936651264303072,
        6.0,
        1572777747.0,
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_times(name: str) -> None:
    assert figures(name) == pytest.approx(EXPECTED[name], rel=1e-9)
