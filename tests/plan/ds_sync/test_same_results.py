"""The same racks give the same pattern on every machine and from version to version.

What a pattern is hangs on every clock, turn and tie. Who changes one on purpose writes down here what comes of it: how
many iterations a period has, a checksum of its groups and leaders, and how fast it mixes.
"""

from __future__ import annotations

import zlib

import pytest

from netprobe.plan.ds_sync.consensus import eigenvalue_of, rho_of, steps_until_close
from netprobe.plan.ds_sync.patterns import make_pattern
from tests.plan.ds_sync.test_patterns import racks_of

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def figures(case: Case) -> tuple[int, int, int, float, float]:
    sizes, slow, busy = case
    pattern = make_pattern(racks_of(list(sizes)), slow, busy)
    words = repr([(one.groups, one.leaders) for one in pattern]).encode()
    rho = rho_of(pattern, sum(sizes))
    steps = steps_until_close(rho, len(pattern))
    return len(pattern), zlib.crc32(words), steps, rho, eigenvalue_of(pattern, sum(sizes))


EXPECTED: dict[Case, tuple[int, int, int, float, float]] = {
    ((4,), (), ()): (1, 2111598537, 1, 0.0, 0.0),
    ((3, 3, 3), (), ()): (3, 2459513629, 15, 0.25000000000000006, 0.12500000000000003),
    ((2, 4, 1, 3), (), ()): (4, 2584495939, 32, 0.3943688399205098, 0.2780480836840176),
    ((4, 4, 4, 4), (1,), ()): (4, 4065770169, 44, 0.5185185185185188, 0.49382716049382697),
    ((5, 4, 6), (0,), (5,)): (6, 177190542, 132, 0.7215291995812892, 0.6489846936200196),
    ((3, 5, 4, 4), (0, 1, 2), ()): (5, 940772236, 240, 0.8635869547062729, 0.8486514604099779),
    ((6, 6), (), (1, 2, 7)): (5, 2131794675, 35, 0.3663994879254292, 0.14632414232630603),
    ((2, 2, 3), (2,), ()): (4, 1543799000, 140, 0.8199872755394718, 0.7252714507957342),
    ((1, 1, 1), (), ()): (1, 4063661576, 1, 1.922962686383564e-16, 0.0),
    ((4, 5), (0, 1), (0, 1, 2, 3)): (5, 1525466286, 30, 0.2542119429009145, 0.21512611478204108),
    ((7, 4, 4, 4, 4), (1, 3), (2,)): (6, 2552040858, 120, 0.7019275049627591, 0.6252153423977511),
}


@pytest.mark.parametrize("case", EXPECTED, ids=str)
def test_patterns(case: Case) -> None:
    *whole, rho, eigenvalue = figures(case)
    assert whole == list(EXPECTED[case][:3])
    assert (rho, eigenvalue) == pytest.approx(EXPECTED[case][3:], abs=1e-6)
