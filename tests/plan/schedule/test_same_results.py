"""The same algorithm and ranks give the same program and proof on every machine and from version to version.

Plans that were written are compared with what is built anew, so that who changes a builder on purpose writes down here
what it builds then. A program is a checksum of all its columns.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from netprobe.plan.schedule.builders import ALGORITHMS, build
from netprobe.plan.schedule.builders.two_level import hierarchical, shared_out, two_level
from netprobe.plan.schedule.program import compile_schedule
from netprobe.plan.schedule.proof import prove
from netprobe.plan.schedule.schedule import Schedule


def checksum(schedule: Schedule) -> tuple[int, int, str]:
    """Of a schedule's transfers, of its program's actions and waits, and what is proved of it."""
    every = schedule.expanded()
    program = compile_schedule(schedule)
    sent = (every.step, every.src, every.dst, every.first, every.last, every.op, every.channel)
    done = (
        program.bounds, program.kind, program.first, program.last, program.peer, program.channel,
        program.reduces, program.step, program.after_bounds, program.after,
    )  # fmt: skip
    sums = [zlib.crc32(b"".join(np.asarray(c).astype("<i8").tobytes() for c in of)) for of in (sent, done)]
    proof = prove(program, schedule.contract)
    return sums[0], sums[1], f"{', '.join(proof.safe_under)}; {proof.uniform_messages}"


def schedules() -> dict[str, Schedule]:
    """Every algorithm among 5 and 8 ranks over one connection and three, and those of groups."""
    made = {}
    for name in [*ALGORITHMS, "bcube-3"]:
        for ranks, channels, blocks in ((5, 1, None), (8, 3, 4)):
            made[f"{name} {ranks} {channels}"] = build(name, ranks, channels, blocks)
    groups = [[0, 3], [1, 2, 5], [4]]
    made["2lha"] = two_level(groups, 7, channels=2)
    weights = [1.0, 2.0, 0.0, 3.0, 1.0, 2.0]
    made["2lha by weights"] = two_level(groups, 9, weights=weights, group_weights=[1.0, 3.0, 0.0])
    made["hierarchical"] = hierarchical([[0, 3], [1, 2], [4, 5]], channels=2, blocks=3)
    made["hierarchical of one"] = hierarchical([[0, 1, 2]])
    return made


EXPECTED: dict[str, tuple[int, int, str]] = {
    "ring 5 1": (82214352, 3151777750, "eager, window 1, issue order; True"),
    "ring 8 3": (4226640898, 1662943011, "eager, window 1, issue order; True"),
    "chunked-ring 5 1": (51211611, 3576475366, "eager, window 1, issue order; True"),
    "chunked-ring 8 3": (3270436957, 1236659134, "eager, window 1, issue order; True"),
    "two-way-ring 5 1": (3291790457, 2072964524, "eager, window 1, issue order; True"),
    "two-way-ring 8 3": (1074729563, 3506336152, "eager, window 1, issue order; True"),
    "halving-doubling 5 1": (2293467048, 1110110243, "eager, window 1, issue order; True"),
    "halving-doubling 8 3": (2094430736, 2034744618, "eager, window 1, issue order; True"),
    "halving-doubling-farthest-first 5 1": (2320773405, 246304687, "eager, window 1, issue order; True"),
    "halving-doubling-farthest-first 8 3": (3323158827, 3887606963, "eager, window 1, issue order; True"),
    "recursive-doubling 5 1": (2731052882, 2036604316, "eager, window 1, issue order; True"),
    "recursive-doubling 8 3": (2326432962, 4134184485, "eager, window 1, issue order; True"),
    "reduce-scatter 5 1": (2047803740, 4089917478, "eager, window 1, issue order; True"),
    "reduce-scatter 8 3": (3565959881, 4277206652, "eager, window 1, issue order; True"),
    "bcube 5 1": (2418390348, 1040314448, "eager, window 1, issue order; True"),
    "bcube 8 3": (18051766, 2407352078, "eager, window 1, issue order; True"),
    "flat 5 1": (2418390348, 1040314448, "eager, window 1, issue order; True"),
    "flat 8 3": (1025456557, 2783378976, "eager, window 1, issue order; True"),
    "double-binary-tree 5 1": (2071094693, 2124797964, "eager, window 1, issue order; True"),
    "double-binary-tree 8 3": (45960381, 2447486235, "eager, window 1, issue order; True"),
    "nccl-tree 5 1": (1870203455, 2047248069, "eager, window 1, issue order; True"),
    "nccl-tree 8 3": (3919119613, 62169365, "eager, window 1, issue order; True"),
    "binomial-tree 5 1": (2000579899, 3507821390, "eager, window 1, issue order; True"),
    "binomial-tree 8 3": (3695868538, 269983121, "eager, window 1, issue order; True"),
    "bcube-3 5 1": (2418390348, 1040314448, "eager, window 1, issue order; True"),
    "bcube-3 8 3": (1025456557, 2783378976, "eager, window 1, issue order; True"),
    "2lha": (1273881036, 1845148483, "eager, window 1, issue order; True"),
    "2lha by weights": (3129662995, 1636946542, "eager, window 1, issue order; True"),
    "hierarchical": (3671887528, 2455473339, "eager, window 1, issue order; True"),
    "hierarchical of one": (827138677, 3756219772, "eager, window 1, issue order; True"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_programs(name: str) -> None:
    assert checksum(schedules()[name]) == EXPECTED[name]


def test_all_are_written_down() -> None:
    assert set(EXPECTED) == set(schedules())


def test_pieces_are_shared_out_in_proportion_and_evenly_mixed() -> None:
    """Each next one goes to who would then have the least for its weight: 1/2, 1 and 1, 3/2, 2 and 2 and 2, ..."""
    assert shared_out(7, [1.0, 2.0, 0.5]) == [1, 0, 1, 1, 0, 1, 2]
    assert shared_out(6, [0.0, 1.0, 1.0]) == [1, 2, 1, 2, 1, 2]
