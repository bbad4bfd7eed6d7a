"""The same readings give the same verdicts on every machine and from version to version.

A tuner's course hangs on every rule, limit and tie of it. Who changes one on purpose writes down here what becomes of
these courses then: the kind of each verdict (its first letter), and checksums of the masters and of what was said.
The readings are whole numbers of a formula.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pytest

from netprobe.plan.tune.masters import Masters, carried, even_masters
from netprobe.plan.tune.policy import Reading, Tuner, Verdict

WINDOWS = 60
GROUPS = {
    "flat": [list(range(8))],
    "even": [list(range(4 * g, 4 * g + 4)) for g in range(4)],
    "uneven": [[0, 1, 2], [3], [4, 5, 6, 7, 8], [9, 10]],
}


@dataclass(frozen=True)
class Course:
    """What a tuner decided, window by window."""

    kinds: str
    masters: int
    texts: int

    @classmethod
    def of(cls, verdicts: list[Verdict]) -> Course:
        sums = [checksum(one.masters) for one in verdicts]
        return cls(
            "".join(one.kind[0] for one in verdicts),
            zlib.crc32(repr(sums).encode()),
            zlib.crc32("\n".join(one.text for one in verdicts).encode()),
        )


def checksum(masters: Masters) -> int:
    places = np.arange(1, masters.chunks + 1)
    return int((places * masters.home).sum() + (places[:, None] * masters.local).sum() * 1000)


def readings(groups: list[list[int]], seed: int) -> list[tuple[Reading, float]]:
    """Hosts that slow down and recover, windows that were not measured, round trips; and what else takes time."""
    rng = np.random.default_rng([seed, len(groups)])
    count = sum(map(len, groups))
    usual = np.full(count, 10_000)
    found = []
    other = 0.0
    for window in range(WINDOWS):
        if window % 10 == 5:
            usual[rng.integers(count)] = int(rng.choice([3000, 5000, 8000, 10_000]))
        if window % 20 == 13:
            usual[:] = usual * 3 // 4
        if window % 25 == 17:
            usual[:] = 10_000
        other = 0.4 if window % 15 in (7, 8, 9) else 0.0
        rates = usual * rng.integers(97, 104, count) / 100.0
        between = np.array([rates[own].sum() for own in groups])
        if window % 7 == 3:
            rates[rng.integers(count)] = np.nan
        rtt = rng.integers(1, 5, count) / 8192.0
        reading = Reading(seconds=0.0, size_bytes=160_000, rates=rates, rtt_s=rtt, between=between)
        found.append((reading, other))
    return found


def course(name: str, seed: int, *, moves: bool = True) -> tuple[Course, list[Verdict]]:
    groups = GROUPS[name]
    masters = even_masters(groups, 160)
    work = carried(masters.groups)
    tuner = Tuner(masters, [f"h{host}" for host in range(masters.ranks)], moves=moves)
    verdicts = []
    for reading, other in readings(groups, seed):
        load = work.of(tuner.masters) * 1000.0
        seconds = float(np.nanmax(load / reading.rates)) * (1 + other)
        made = Reading(
            seconds=seconds, size_bytes=reading.size_bytes, rates=reading.rates, rtt_s=reading.rtt_s,
            between=reading.between,
        )  # fmt: skip
        verdicts.append(tuner.step(made))
    return Course.of(verdicts), verdicts


EXPECTED: dict[tuple[str, int, bool], Course] = {
    ("flat", 1, True): Course(
        "wkkkkkqwbwqwkkkkqwkkkkkkkkqwkkkkkkkqwqwkkkkqwkqwkkkkkkkqwqwk", 2916667919, 1263938027
    ),
    ("flat", 2, True): Course(
        "wkkkkkqwbwqwkkkkkkqwkkkkkkqwkkkkkkkqwqwkkkkqwkqwkkkkkkkkkkkk", 3250865727, 1577572128
    ),
    ("flat", 3, True): Course(
        "wkkkkkqwkkkkkkkqwkkqwkkkkkqwkkkkkkkqwqwkkkkqwkqwkkkkkkkqwqwk", 3786250870, 58929560
    ),
    ("even", 1, True): Course(
        "wkkkkkqwfffffffqwqwkkkkkkkqwfffffffffkbwqwkqwkkkkkkkkkkkqwff", 2703671444, 4201355200
    ),
    ("even", 2, True): Course(
        "wkkkkkqwkkkkkkkqwqwkkkkkkkqwkkkkkkkqwqwkkkkqwkqwffffffffqwff", 2806420070, 4150313805
    ),
    ("even", 3, True): Course(
        "wkkkkkqwkkkkkkkqwqwkkkkkkkqwfffffffqwqwffffqwkkkkkkkkkkkqwff", 2354251986, 3829888743
    ),
    ("uneven", 1, True): Course(
        "wffffffffffffffkbwkkkkkkffqwffffffffqwbwqwfqwffffffffkbwkkkk", 3486854363, 2047240829
    ),
    ("uneven", 2, True): Course(
        "wfffffqwfffffffqwqwffffffkqwffffffkbwqwkkqwqwkqwfffffffqwqwk", 3565744529, 1554652254
    ),
    ("uneven", 3, True): Course(
        "wffffffffffffffkqwqwkkkkkkqwkkkkkkkqwqwkkkkqwkkkkkkkkkkkkkkk", 3203196786, 3403860212
    ),
    ("even", 1, False): Course(
        "wkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", 3776600175, 3120986828
    ),
}


@pytest.mark.parametrize(("name", "seed", "moves"), EXPECTED)
def test_courses(name: str, seed: int, moves: bool) -> None:
    found, verdicts = course(name, seed, moves=moves)
    assert found == EXPECTED[name, seed, moves], "\n".join(one.text for one in verdicts)
