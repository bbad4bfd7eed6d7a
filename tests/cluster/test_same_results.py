"""The same readings and seed give the same groups, verdicts and outliers on every machine and from version to version.

What is found hangs on every constant and every tie. Who changes one on purpose writes down here what is found then, and
in CHANGELOG.md that groups of the same map are others. The readings are whole numbers of a formula; of all numbers
that come with a result there is one weighted sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netprobe.cluster import compare_methods, find_groups, find_outliers
from netprobe.cluster.evaluate.repeated import run_to_run
from netprobe.cluster.natural.stability import stability_of

Matrix = NDArray[np.float64]


def fleet(kind: str, size: int) -> tuple[Matrix, Matrix]:
    """Microseconds between hosts, as denoised and as measured: noise, slow links and hosts, directions, holes."""
    rng = np.random.default_rng([size, len(kind)])
    host = np.arange(size)
    rack = host // 5
    same, row = rack[:, None] == rack[None, :], host // 15
    if kind == "racks":
        base = np.where(same, 90, 230)
    elif kind == "rows":
        base = np.where(same, 90, np.where(row[:, None] == row[None, :], 210, 520))
    elif kind == "plane":
        at = rng.integers(0, 900, (size, 2))
        base = np.abs(at[:, None] - at[None]).sum(axis=2) + 60
    elif kind == "loose":  # readings that hardly tell the racks apart, a fifth of the pairs missing
        base = np.where(same, 200, 250)
    else:
        base = np.full((size, size), 150)
    tall = np.where(host % 11 == 7, 70, host % 4)
    more = (
        np.triu(rng.integers(0, 5000, (size, size)), 1) / 1000.0
    )  # no two are alike: a tie may fall either way
    denoised = base + tall[:, None] + tall + more + more.T
    raw = denoised + rng.integers(0, 40_000, (size, size)) / 1000.0
    raw[1, 9] *= 3
    raw[2, 7], raw[7, 2] = raw[2, 7] * 4, raw[7, 2] * 4
    if kind == "loose":
        gone = np.triu(rng.random((size, size)) < 0.2, 1)
        raw[gone | gone.T] = np.nan
    raw[4, 8] = np.nan
    for matrix in (denoised, raw):
        np.fill_diagonal(matrix, 0.0)
    turn = rng.permutation(size)
    return denoised[np.ix_(turn, turn)] * 1e-6, raw[np.ix_(turn, turn)] * 1e-6


def numbers(value: Any) -> Iterator[float]:
    """All in a result, in its order; a text counts by its length, nothing as -1."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from numbers(value[key])
    elif isinstance(value, (list, tuple, np.ndarray)):
        yield float(len(value))
        for one in value:
            yield from numbers(one)
    elif isinstance(value, str):
        yield float(len(value))
    else:
        yield -1.0 if value is None else float(value)


def weighed(value: Any) -> float:
    """One sum of all numbers, each by a weight of its place."""
    return math.fsum(one * math.cos(place) for place, one in enumerate(numbers(value)))


def said(kind: str, size: int, options: Mapping[str, Any]) -> tuple[str, float]:
    """The groups, a letter a host, and the sum of all else that is said of them."""
    denoised, raw = fleet(kind, size)
    found, verdict = find_groups(denoised, raw, seed=5, **options)
    rest: list[Any] = [
        found.evidence,
        verdict.locality,
        verdict.contrast,
        verdict.p_value,
        find_outliers(raw, found.labels),
    ]
    if size < 40:
        rest += [stability_of(raw, found.labels, seed=5), compare_methods(denoised, raw, found, seed=5)]
    return "".join(chr(ord("a") + label) for label in found.labels.tolist()), weighed(rest)


FOUND: list[tuple[str, int, dict[str, Any], str, float]] = [
    ("racks", 20, {}, "abcbcbcbdadacddaadbc", -32.88028080045073),
    ("racks", 27, {}, "abcdeafcafeefdbdbbfaedaefdb", 42.36572760868182),
    ("rows", 45, {}, "abbbcdecfcddgdfcefghdaabiiahgfeebfahihcieggih", 41.891498478188254),
    ("rows", 60, {}, "abccdceffecegbhahiajigdkjbfjkeaglgldfdkkiicehadbjbfkjglihlhl", 67.95695135216671),
    ("plane", 24, {}, "abcdbedfagaffgbhdgcdhcha", -38.38250684431109),
    ("loose", 30, {}, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 58.468981281268555),
    ("flat", 16, {}, "aaaaaaaaaaaaaaaa", 42.571713068111656),
    ("flat", 25, {"method": "auto"}, "abccbddceecbbcaaeeadedbad", 1.057811988793448),
    ("racks", 25, {"method": "sqrt"}, "abcaddabaccdbbaeeddeecbce", 12.984998006420534),
    ("plane", 26, {"method": "sqrt", "elasticity": 1.5}, "abcbabbcdeaabeeaebcaddaede", 25.599007359816568),
    ("rows", 30, {"k": 4}, "abbccacdcbcbbbdbbbdbadbbdbabab", -15.405665793818738),
    ("plane", 22, {"k": 3}, "abacaaacccabcabcbabaca", 17.268509229495983),
    ("racks", 10, {}, "abaabbabab", -11.718349214645631),
    ("loose", 50, {}, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 31.681810407314345),
    ("plane", 12, {"method": "auto"}, "abcccbaaaabb", 65.03216197912045),
]


@pytest.mark.parametrize(("kind", "size", "options", "groups", "rest"), FOUND)
def test_groups(kind: str, size: int, options: dict[str, Any], groups: str, rest: float) -> None:
    letters, weight = said(kind, size, options)
    assert letters == groups and weight == pytest.approx(rest, rel=1e-6, abs=1e-6)


RUNS: list[tuple[str, int, float, float]] = [
    ("plane", 16, 2.0, 13.47382606745233),
    ("plane", 25, 1.0, 14.028571201629477),
    ("rows", 30, 1.5, 13.77228321727974),
]


@pytest.mark.parametrize(("kind", "size", "elasticity", "rest"), RUNS)
def test_run_to_run(kind: str, size: int, elasticity: float, rest: float) -> None:
    denoised, _ = fleet(kind, size)
    found = run_to_run(denoised, clusterings=12, elasticity=elasticity, seed=2)
    assert weighed(found) == pytest.approx(rest, rel=1e-6)
