"""convergence: DS-Sync compared with synchronous training on scikit-learn's digits, in pairs of one split and start.

The ranks are simulated in one process: their parameters are the rows of one array, and an iteration's averages are
the pattern's matrix times it, which is what the trainer's tests show of real ranks. Learning rate and ensemble are
chosen on other seeds than those that are reported.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import dataclass

import numpy as np
from _tables import table
from numpy.typing import NDArray
from scipy import stats

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.plan.ds_sync.consensus import averaging
from netprobe.plan.ds_sync.patterns import make_pattern

RACKS = [[0, 1, 2, 3], [4, 5, 6, 7]]
RANKS = 8
HIDDEN = 64
BATCH = 16
TEST = 450
MOMENTUM = 0.9
TARGET = 0.95
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Data:
    """One split: inputs and labels, to train on and held out."""

    x: Floats
    y: NDArray[np.intp]
    test_x: Floats
    test_y: NDArray[np.intp]


@dataclass(frozen=True)
class Run:
    """Final accuracies of the last model, of ensembles by factor, of rank 0 alone; iterations to the target."""

    last: float
    ensembles: dict[float, float]
    alone: float
    to_target: float


def split(seed: int) -> Data:
    """The digits, 450 of them held out."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    x, y = (images[order] / 16).astype(np.float32), labels[order]
    return Data(x[TEST:], y[TEST:], x[:TEST], y[:TEST])


def layers(flat: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The weights and biases in rows of parameters (ranks, P)."""
    a, b, c = 64 * HIDDEN, 65 * HIDDEN, 75 * HIDDEN
    rows = len(flat)
    return (
        flat[:, :a].reshape(rows, 64, HIDDEN), flat[:, a:b].reshape(rows, 1, HIDDEN),
        flat[:, b:c].reshape(rows, HIDDEN, 10), flat[:, c:].reshape(rows, 1, 10),
    )  # fmt: skip


def gradient(flat: Floats, x: Floats, y: NDArray[np.intp]) -> Floats:
    """Of the mean cross-entropy of each rank's batch: x (ranks, batch, 64), y (ranks, batch)."""
    w, b, v, c = layers(flat)
    hidden = np.maximum(x @ w + b, 0)
    logits = hidden @ v + c
    logits -= logits.max(axis=2, keepdims=True)
    error = np.exp(logits)
    error /= error.sum(axis=2, keepdims=True)
    np.put_along_axis(error, y[:, :, None], np.take_along_axis(error, y[:, :, None], 2) - 1, 2)
    error /= y.shape[1]
    back = (error @ v.transpose(0, 2, 1)) * (hidden > 0)
    parts = (
        x.transpose(0, 2, 1) @ back, back.sum(axis=1),
        hidden.transpose(0, 2, 1) @ error, error.sum(axis=1),
    )  # fmt: skip
    return np.concatenate([part.reshape(len(flat), -1) for part in parts], axis=1)


def accuracy(flat: Floats, data: Data) -> float:
    """Of one model (P,) on what is held out."""
    w, b, v, c = layers(flat[None])
    logits = np.maximum(data.test_x @ w[0] + b[0], 0) @ v[0] + c[0]
    return float((logits.argmax(axis=1) == data.test_y).mean())


def train(seed: int, rate: float, iterations: int, averages: list[FloatMatrix], factors: list[float]) -> Run:
    """A run in which iteration t multiplies the ranks' parameters by ``averages[t % len]``, after a step of each."""
    data = split(seed)
    draw = np.random.default_rng([seed, 2])
    scale = np.sqrt(2 / np.array([64.0, HIDDEN]))
    start = np.concatenate([
        draw.normal(0, scale[0], 64 * HIDDEN), np.zeros(HIDDEN),
        draw.normal(0, scale[1], 10 * HIDDEN), np.zeros(10),
    ]).astype(np.float32)  # fmt: skip
    flat = np.repeat(start[None], RANKS, axis=0)
    speed = np.zeros_like(flat)
    matrices = [one.astype(np.float32) for one in averages]
    ensembles = {factor: start.copy() for factor in factors}
    first, epoch = math.inf, np.empty(0, dtype=np.intp)
    for t in range(iterations):
        if len(epoch) < RANKS * BATCH:
            epoch = draw.permutation(len(data.y))
        batch, epoch = epoch[: RANKS * BATCH].reshape(RANKS, BATCH), epoch[RANKS * BATCH :]
        speed = MOMENTUM * speed + gradient(flat, data.x[batch], data.y[batch])
        flat = matrices[t % len(matrices)] @ (flat - rate * speed)
        mean = flat.mean(axis=0)
        for factor, ensemble in ensembles.items():
            ensemble *= factor
            ensemble += (1 - factor) * mean
        if math.isinf(first) and accuracy(mean, data) >= TARGET:
            first = t + 1
    return Run(
        last=accuracy(flat.mean(axis=0), data),
        ensembles={factor: accuracy(one, data) for factor, one in ensembles.items()},
        alone=accuracy(flat[0], data),
        to_target=first,
    )


def interval(differences: list[float]) -> str:
    """The mean of paired differences in points, and its 95 % interval by Student's t."""
    points = 100 * np.array(differences)
    half = float(stats.t.ppf(0.975, len(points) - 1) * stats.sem(points)) if len(points) > 1 else math.nan
    return f"{points.mean():+.2f} ({points.mean() - half:+.2f} .. {points.mean() + half:+.2f})"


def main() -> None:
    """Choose on some seeds, report others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--tuning-seeds", type=int, default=6)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--rates", default="0.02,0.05,0.1,0.2,0.4")
    parser.add_argument("--factors", default="0.9,0.97,0.99")
    options = parser.parse_args()
    began = time.monotonic()
    rates = [float(word) for word in options.rates.split(",")]
    factors = [float(word) for word in options.factors.split(",")]
    shuffled = [averaging(one.groups, RANKS) for one in make_pattern(RACKS)]
    together = [np.full((RANKS, RANKS), 1 / RANKS)]
    tuning = range(10_000, 10_000 + options.tuning_seeds)
    tried = {r: [train(s, r, options.iterations, together, []) for s in tuning] for r in rates}
    rate = max(rates, key=lambda r: statistics.mean(run.last for run in tried[r]))
    tried_factors = [train(s, rate, options.iterations, shuffled, factors) for s in tuning]
    factor = max(factors, key=lambda f: statistics.mean(run.ensembles[f] for run in tried_factors))
    print(
        f"{RANKS} ranks in racks of 4 and 4, {options.iterations} iterations of {RANKS} x {BATCH} images, "
        f"{TEST} held out; SGD, momentum {MOMENTUM}\n"
        f"chosen on {options.tuning_seeds} other seeds: rate {rate:g} (best of {options.rates} for synchronous "
        f"training), ensemble {factor:g} (of {options.factors})"
    )
    pairs = [
        (
            train(seed, rate, options.iterations, together, [factor]),
            train(seed, rate, options.iterations, shuffled, [factor]),
        )
        for seed in range(options.seeds)
    ]
    base = 100 * statistics.mean(one.last for one, _ in pairs)
    missed = sum(math.isinf(s.to_target) or math.isinf(d.to_target) for s, d in pairs)
    ratios = [d.to_target / s.to_target for s, d in pairs if not math.isinf(s.to_target)]
    to_target = [statistics.median(one.to_target for one in ones) for ones in zip(*pairs, strict=True)]
    print()
    table(
        [
            "what",
            f"difference to synchronous training, points, {len(pairs)} pairs",
            f"iterations to {100 * TARGET:.0f} % (median)",
        ],
        [
            ("synchronous", f"0 ({base:.2f} %)", f"{to_target[0]:g}"),
            (
                "DS-Sync with its ensemble",
                interval([d.ensembles[factor] - s.last for s, d in pairs]),
                "",
            ),
            (
                "both with an ensemble",
                interval([d.ensembles[factor] - s.ensembles[factor] for s, d in pairs]),
                "",
            ),
            (
                "DS-Sync, mean of last models",
                interval([d.last - s.last for s, d in pairs]),
                f"{to_target[1]:g}, median ratio {statistics.median(ratios):.3f}; not reached in {missed} pairs",
            ),
            ("DS-Sync, rank 0's model alone", interval([d.alone - s.last for s, d in pairs]), ""),
        ],
    )
    print(f"wall time: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
