"""Real matrices: the loaders, the errors that are reported, and other people's ways to complete a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InputError
from netprobe.embed.coordinates.starts import classical_scaling
from netprobe.formats.matrix import ReadOptions, read_matrix

Matrix = NDArray[np.float64]
Pairs = NDArray[np.bool_]
# Slices of PlanetLab-490: the wide-area methods were chosen on the first two, and are reported on the others.
CHOOSING_SLICES, REPORTED_SLICES = (10, 13), (1, 4, 7)
Source = Literal["WonderProxy", "PlanetLab"]
SOURCES: tuple[Source, ...] = ("WonderProxy", "PlanetLab")
CHOSEN_ON, REPORTED_ON = 7, 11
"""First word of the seed of a draw: methods were chosen on draws of the one, and are reported on those of the other."""
RANKS, SHRINKS = (6, 12, 20, 30), (0.25, 0.5)


def content(folder: Path, name: str) -> bytes:
    """The bytes of a file of the data folder. Raises InputError where it cannot be read."""
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name} in the data folder: {error.strerror}") from None


def planetlab(folder: Path) -> dict[int, Matrix]:
    """(490, 490) RTTs in ms of each slice that is there, by number."""
    slices = {}
    for number in sorted((*CHOOSING_SLICES, *REPORTED_SLICES)):
        _, readings = read_matrix(content(folder, f"planetlab490/PlanetLabData_{number}.gz"))
        slices[number] = readings.values
    return slices


def wonderproxy(folder: Path) -> Matrix:
    """(250, 250) mean RTTs of a day in ms, NaN where missing."""
    text = content(folder, "wonderproxy240/pings-2020-07-19-2020-07-20-grouped.csv.gz")
    return read_matrix(text, options=ReadOptions(format="long", column="avg"))[1].values


def repeat_errors(slices: Sequence[Matrix], at: int, distance: Matrix) -> tuple[float, ...]:
    """Errors of ``distance`` against the median of the slices other than ``at``.

    The mean absolute error in the slices' unit and the median relative one, on the tenth of the links
    that vary most between those other slices (deviation over median), then the same two over all links.
    """
    upper = np.triu_indices(len(distance), 1)
    others = np.array([one[upper] for number, one in enumerate(slices) if number != at])
    middle = np.median(others, axis=0)
    vary = others.std(axis=0) / middle
    most = vary >= np.quantile(vary, 0.9)
    off = np.abs(distance[upper] - middle)
    relative = off / middle
    return tuple(
        float(v) for v in (off[most].mean(), np.median(relative[most]), off.mean(), np.median(relative))
    )


def levelled_by_truth(slices: Sequence[Matrix], at: int) -> Matrix:
    """The slice less what each host adds to it over the other slices' median: no method can know that."""
    excess = slices[at] - np.median([one for i, one in enumerate(slices) if i != at], axis=0)
    height = np.zeros(len(excess))
    for _ in range(8):
        height += 0.5 * np.nanmedian(excess - height[:, None] - height[None, :], axis=1)
    return np.asarray(np.maximum(slices[at] - height[:, None] - height[None, :], 0.0))


def hide(matrix: Matrix, *, share: float, seed: int) -> tuple[Matrix, Matrix, Pairs]:
    """A matrix without ``share`` of its pairs; the mean of both directions; which pairs were hidden."""
    both = np.where(np.isnan(matrix), matrix.T, matrix)
    both = (both + both.T) / 2
    hidden = np.triu(np.random.default_rng(seed).random(matrix.shape) < share, 1) & np.isfinite(both)
    known: Matrix = np.where(hidden | hidden.T, np.nan, matrix)
    return known, np.asarray(both, dtype=np.float64), np.asarray(hidden, dtype=np.bool_)


def hidden_error(found: Matrix, both: Matrix, hidden: Pairs) -> float:
    """Median relative error on the hidden pairs."""
    return float(np.median(np.abs(found[hidden] - both[hidden]) / both[hidden]))


def joined(matrix: Matrix) -> Matrix:
    """Symmetric: the mean of both directions, or the one there is; zero diagonal."""
    both = np.where(np.isnan(matrix), matrix.T, matrix)
    both = (both + both.T) / 2
    np.fill_diagonal(both, 0.0)
    return np.asarray(both)


def by_means(matrix: Matrix, _seed: int = 0) -> Matrix:
    """Missing pairs from the means of their two rows, less the mean of all."""
    both = joined(matrix)
    known = np.where(np.eye(len(both), dtype=bool), np.nan, both)
    rows = np.nanmean(known, axis=1)
    guess = np.maximum(rows[:, None] + rows[None, :] - np.nanmean(known), 1e-3)
    return np.where(np.isnan(both), guess, both)


def by_paths(matrix: Matrix, _seed: int = 0) -> Matrix:
    """Missing pairs from the shortest path over measured ones."""
    from scipy.sparse.csgraph import shortest_path

    both = joined(matrix)
    found = shortest_path(np.where(np.isnan(both), 0.0, both), directed=False)
    return np.where(np.isnan(both), found, both)


def soft_impute(matrix: Matrix, seed: int) -> Matrix:
    """Soft-Impute (Mazumder, Hastie and Tibshirani 2010) of what row means leave over.

    Rank and shrinkage are those that predict a tenth of the known pairs best.
    """
    inner, both, hidden = hide(matrix, share=0.1, seed=seed + 1)
    best = min(
        ((rank, shrink) for rank in RANKS for shrink in SHRINKS),
        key=lambda pair: hidden_error(_imputed(inner, *pair), both, hidden),
    )
    return _imputed(matrix, *best)


def _imputed(matrix: Matrix, rank: int, shrink: float, rounds: int = 40) -> Matrix:
    both = joined(matrix)
    known = np.isfinite(both) & ~np.eye(len(both), dtype=bool)
    add = np.where(known, both, np.nan)
    rows = np.nanmean(add, axis=1) - np.nanmean(add) / 2
    base = rows[:, None] + rows[None, :]
    left = np.where(known, both - base, 0.0)
    limit = shrink * float(left[known].std()) * np.sqrt(len(left))
    low = np.zeros_like(left)
    for _ in range(rounds):
        # Symmetric, so the singular values are the sizes of the eigenvalues.
        values, vectors = np.linalg.eigh(np.where(known, left, low))
        size = np.maximum(np.abs(values) - limit, 0.0)
        size[np.argsort(size)[:-rank]] = 0.0
        low = (vectors * (np.sign(values) * size)) @ vectors.T
    return np.asarray(np.maximum(base + low, 1e-3))


def vivaldi(matrix: Matrix, seed: int, *, dimensions: int = 3, rounds: int = 400) -> Matrix:
    """Vivaldi (Dabek et al. 2004): springs with heights; each round every host asks one random host."""
    both = joined(matrix)
    known = np.isfinite(both) & ~np.eye(len(both), dtype=bool)
    scale = float(np.median(both[known]))
    rng = np.random.default_rng(seed)
    n = len(both)
    place, height, error = rng.normal(0, 0.1, (n, dimensions)), np.full(n, 0.1), np.ones(n)
    for _ in range(rounds):
        for host in rng.permutation(n):
            other = rng.choice(np.flatnonzero(known[host]))
            rtt = both[host, other] / scale
            apart = place[host] - place[other]
            length = max(float(np.sqrt(apart @ apart)), 1e-6)
            off = rtt - (length + height[host] + height[other])
            weight = error[host] / (error[host] + error[other])
            error[host] = min(abs(off) / rtt * 0.25 * weight + error[host] * (1 - 0.25 * weight), 10.0)
            step = 0.25 * weight * off
            span = length + height[host] + height[other]
            place[host] += step * apart / span
            height[host] = max(height[host] + step * (height[host] + height[other]) / span, 1e-3)
    length = np.sqrt(((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2))
    return np.asarray((length + height[:, None] + height[None, :]) * scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Some hosts of a matrix: ``readings`` (N, N) ``[src, dst]`` without holes, ``both`` the mean of two directions,
    ``given`` the readings without the pairs that are ``hidden`` (upper triangle)."""

    readings: Matrix
    both: Matrix
    given: Matrix
    hidden: Pairs


def draw(
    matrices: dict[int, Matrix],
    source: Source,
    n: int,
    number: int,
    *,
    choosing: bool = False,
    share: float = 0.2,
) -> Draw:
    """N hosts all of whose pairs were measured, and ``share`` of the pairs to hide, which leaves the rest connected.

    matrices: of WonderProxy the one (under 0), of PlanetLab its slices by number.
    """
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng([CHOSEN_ON if choosing else REPORTED_ON, number, n, SOURCES.index(source)])
    slices = CHOOSING_SLICES if choosing else REPORTED_SLICES
    matrix = matrices[0 if source == "WonderProxy" else slices[number % len(slices)]]
    off = ~np.eye(n, dtype=bool)
    while True:
        some = rng.choice(len(matrix), n, replace=False)
        readings = matrix[np.ix_(some, some)].copy()
        np.fill_diagonal(readings, 0.0)
        both = joined(readings)
        if (np.nan_to_num(both)[off] > 0).all():
            break
    rows, columns = np.triu_indices(n, 1)
    count = max(1, round(share * len(rows)))
    while True:
        some = rng.choice(len(rows), count, replace=False)
        hidden = np.zeros((n, n), dtype=bool)
        hidden[rows[some], columns[some]] = True
        if connected_components(off & ~(hidden | hidden.T), directed=False)[0] == 1:
            break
    given = np.where(hidden | hidden.T, np.nan, readings)
    return Draw(readings=readings, both=both, given=given, hidden=hidden)


def by_scaling(matrix: Matrix, _seed: int = 0) -> Matrix:
    """Classical scaling in three dimensions of what shortest paths complete."""
    points = classical_scaling(by_paths(matrix), dimensions=3)
    return np.asarray(np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)))


def by_springs(matrices: Sequence[Matrix], seed: int, *, dimensions: int = 3, rounds: int = 400) -> Matrix:
    """(B, N, N): `vivaldi` with heights on B matrices of one size at once, which is many times as fast."""
    both = np.stack([joined(one) for one in matrices])
    count, n = both.shape[:2]
    known = np.isfinite(both) & ~np.eye(n, dtype=bool)
    scale = np.array([np.median(one[there]) for one, there in zip(both, known)])
    rng = np.random.default_rng(seed)
    place = rng.normal(0, 0.1, (count, n, dimensions))
    height, error = np.full((count, n), 0.1), np.ones((count, n))
    every, partners = np.arange(count), known.cumsum(axis=2)
    for _ in range(rounds):
        turns = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
        picks = rng.random((count, n))
        for turn in range(n):
            host = turns[:, turn]
            wanted = (picks[:, turn] * partners[every, host, -1]).astype(np.intp)
            other = (partners[every, host] > wanted[:, None]).argmax(axis=1)
            rtt = both[every, host, other] / scale
            apart = place[every, host] - place[every, other]
            length = np.maximum(np.sqrt((apart**2).sum(axis=1)), 1e-6)
            span = length + height[every, host] + height[every, other]
            off = rtt - span
            weight = error[every, host] / (error[every, host] + error[every, other])
            size = np.abs(off) / rtt * 0.25 * weight + error[every, host] * (1 - 0.25 * weight)
            error[every, host] = np.minimum(size, 10.0)
            step = 0.25 * weight * off
            place[every, host] += (step / span)[:, None] * apart
            pull = step * (height[every, host] + height[every, other]) / span
            height[every, host] = np.maximum(height[every, host] + pull, 1e-3)
    length = np.sqrt(((place[:, :, None, :] - place[:, None, :, :]) ** 2).sum(axis=3))
    found = (length + height[:, :, None] + height[:, None, :]) * scale[:, None, None]
    return np.asarray(found)
