"""Which pairs differ by direction beyond noise, for any noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.cluster import asymmetric_pairs
from netprobe.core.errors import InputError
from netprobe.formats.matrix import ReadOptions, read_matrix
from tests.properties import examples

Matrix = NDArray[np.float64]
NOISES: dict[str, Callable[[np.random.Generator, int], Matrix]] = {
    "a twentieth": lambda rng, n: np.exp(rng.normal(0.0, 0.05, (n, n))),
    "a third": lambda rng, n: np.exp(rng.normal(0.0, 0.3, (n, n))),
    "all there is": lambda rng, n: rng.exponential(1.0, (n, n)),
    "any number": lambda rng, n: rng.uniform(1.0, 5.0, (n, n)),
    "delays": lambda rng, n: 1.0 + rng.exponential(0.2, (n, n)),
    "whole numbers": lambda rng, n: np.round(rng.normal(20.0, 3.0, (n, n))),
}


def cycle(hosts: int, ratio: float, noise: float = 0.0, seed: int = 0) -> Matrix:
    matrix = np.full((hosts, hosts), ratio)
    matrix[np.arange(hosts), (np.arange(hosts) + 1) % hosts] = 1.0
    return matrix * np.exp(np.random.default_rng(seed).normal(0.0, noise, matrix.shape))


def neighbours(hosts: int) -> NDArray[np.bool_]:
    found = np.zeros((hosts, hosts), dtype=bool)
    found[np.arange(hosts), (np.arange(hosts) + 1) % hosts] = True
    return found | found.T


@pytest.mark.parametrize("hosts", range(3, 13))
def test_a_directed_cycle_of_any_length_is_seen(hosts: int) -> None:
    for ratio in (1.6, 5.0, 1000.0):
        assert np.array_equal(asymmetric_pairs(cycle(hosts, ratio)), neighbours(hosts)), ratio
    assert not asymmetric_pairs(cycle(hosts, 1.02)).any()


@pytest.mark.parametrize("hosts", [6, 8, 12])
def test_noise_does_not_hide_it(hosts: int) -> None:
    seen = [
        np.array_equal(asymmetric_pairs(cycle(hosts, 5.0, 0.03, s)), neighbours(hosts)) for s in range(20)
    ]
    assert sum(seen) >= 18


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("hosts", [3, 4, 5, 6, 10, 24])
def test_noise_alone_is_no_direction(name: str, hosts: int) -> None:
    """The level is 2.5 %; of 40 matrices of fixed seeds two may differ by chance."""
    found = 0
    for seed in range(40):
        found += bool(asymmetric_pairs(NOISES[name](np.random.default_rng([seed, hosts]), hosts)).any())
    assert found <= 2


def test_all_pairs_may_differ() -> None:
    rng = np.random.default_rng(0)
    for hosts in (6, 10, 20):
        slower = np.triu(rng.random((hosts, hosts)) < 0.5, 1)
        slower = slower | np.tril(~slower.T, -1)
        matrix = np.where(slower, rng.uniform(2.0, 4.0, slower.shape), 1.0)
        assert asymmetric_pairs(matrix).sum() == hosts * (hosts - 1)


@given(st.integers(2, 9), st.integers(0, 999), st.floats(1e-9, 1e9), st.floats(0.0, 0.4))
@examples(40)
def test_neither_the_unit_nor_the_direction_nor_the_order_matters(
    hosts: int, seed: int, unit: float, missing: float
) -> None:
    rng = np.random.default_rng(seed)
    matrix = cycle(hosts, float(rng.choice([1.0, 3.0])), 0.05, seed)
    matrix[rng.random(matrix.shape) < missing] = np.nan
    found = asymmetric_pairs(matrix)
    assert np.array_equal(found, found.T) and not found.diagonal().any()
    assert not found[np.isnan(matrix) | np.isnan(matrix.T)].any()
    assert np.array_equal(asymmetric_pairs(matrix.T), found)
    order = rng.permutation(hosts)
    assert np.array_equal(asymmetric_pairs(matrix[np.ix_(order, order)] * unit), found[np.ix_(order, order)])


def test_two_readings_of_a_single_pair_do_not_say_what_noise_is() -> None:
    assert not asymmetric_pairs(np.array([[0.0, 1.0], [9.0, 0.0]])).any()
    assert not asymmetric_pairs(np.array([[0.0]])).any()
    with pytest.raises(InputError):
        asymmetric_pairs(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("aws_regions/aws_cloudping_21.csv", {}, 0.0),
        ("aws_regions/cross-region_21.txt", {}, 0.0),
        ("gpu_p2p_matrix/dgx2_v100x12_p2p_disabled_GBs.txt", {}, 0.0),
        ("gpu_p2p_matrix/a100x8_bidir_p2p_disabled_GBs.txt", {}, 0.0),
        # Round trips so noisy that half of the pairs differ by half and more.
        ("seattle99/SeattleData_1", {"zeros": "missing"}, 0.0),
    ],
)
def test_real_round_trips_have_no_direction(
    data_folder: Path, name: str, options: dict[str, str], most: float
) -> None:
    matrix = read_matrix((data_folder / name).read_bytes(), options=ReadOptions(**options))[1].values  # type: ignore[arg-type]
    assert asymmetric_pairs(matrix).mean() <= most
