"""Simulated annealing of a rank order, for any algorithm that is not a plain ring.

Work is limited by steps, never by time. The moves and what each may cost more are drawn before a run, as arrays,
so the run with numba and the one without take the same steps to the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import InternalError
from netprobe.plan.costs import CostModel, LinkCost
from netprobe.plan.costs.delta import Evaluation
from netprobe.plan.costs.model import RoundModel, cached_phases
from netprobe.plan.costs.tree import HALF, TreeModel, both_trees
from netprobe.plan.search.anneal_kernels import EXCHANGE, MOVE, kernels

HOT, COLD = 0.005, 0.0002
"""Temperatures of the first and the last step, as shares of the cost of the start."""
SHARES = (0.55, 0.25, 0.10, 0.10)
"""Of the moves: two ranks swapped, aligned blocks exchanged, any blocks exchanged, a block moved."""

COMPILED_FROM = 64
"""Hosts. Fewer are done in plain Python in the seconds that numba takes to compile, the first time."""


@dataclass(frozen=True, kw_only=True)
class Annealed:
    """An order found, and what it costs on the costs it was searched on."""

    order: tuple[int, ...]
    cost: float
    steps: int


def anneal(
    model: CostModel,
    link_cost: LinkCost,
    start: Sequence[int],
    *,
    steps: int,
    seed: int = 0,
    maximize: bool = False,
    compiled: bool | None = None,
) -> Annealed:
    """One run of ``steps`` moves from ``start``; rank 0 keeps its host.

    ``maximize`` finds the most expensive order. ``compiled`` (default: from `COMPILED_FROM` hosts on, where numba is
    installed) changes the time a run takes and nothing else. The order returned never costs more than ``start``
    (less, with ``maximize``).
    """
    size = len(start)
    first = model.start(start, link_cost)
    if size < 3 or steps < 1:
        return Annealed(order=first.order, cost=first.cost, steps=0)
    rng = np.random.default_rng([seed, size])
    moves = drawn_moves(rng, size, steps)
    heat = np.geomspace(HOT, COLD, steps) * first.cost
    slack = heat * rng.standard_exponential(steps)
    sign = -1.0 if maximize else 1.0
    wanted = size >= COMPILED_FROM if compiled is None else compiled
    if not wanted or kernels() is None:
        order, cost = _plain(first, moves, slack, sign)
    else:
        order, cost = _compiled(model, link_cost, start, moves, slack, sign)
    return Annealed(order=order, cost=cost, steps=steps)


def drawn_moves(rng: np.random.Generator, size: int, steps: int) -> NDArray[np.int64]:
    """Moves (``steps``, 4) among ``size`` >= 3 ranks that leave rank 0 alone.

    A row is (EXCHANGE, lower block, upper block, their length) or (MOVE, first, last, to), as ``Evaluation`` has them.
    """
    kind = rng.choice(4, size=steps, p=SHARES)
    draw = rng.random((steps, 3))
    # Lengths of two to the power of, up to half the ranks.
    most = max(int(np.log2(size / 2)), 0)
    block = np.left_shift(1, 1 + (draw[:, 2] * max(most - 1, 1)).astype(np.int64))
    span = 1 + (draw[:, 2] ** 2 * max(size // 4, 1)).astype(np.int64)
    moves = np.zeros((steps, 4), dtype=np.int64)
    # Exchanges: the lower block starts from rank 1 on, the upper one behind it; what does not fit is a swap.
    length = np.select([kind == 1, kind == 2], [block, span], 1)
    slots = np.where(kind == 1, size // length, size - length + 1)
    fits = np.where(kind == 1, slots >= 3, size - 1 >= 2 * length)
    length = np.where(fits, length, 1)
    aligned = (kind == 1) & fits
    slots = np.where(aligned, size // length, size - length + 1)
    # Two distinct places from 1 on.
    one = 1 + (draw[:, 0] * (slots - 1)).astype(np.int64)
    other = 1 + (draw[:, 1] * (slots - 2)).astype(np.int64)
    other += other >= one
    low, high = np.minimum(one, other), np.maximum(one, other)
    unit = np.where(aligned, length, 1)
    low, high = low * unit, high * unit
    # Any blocks that overlap are made as long as they may be.
    length = np.minimum(length, high - low)
    moves[:, 0], moves[:, 1], moves[:, 2], moves[:, 3] = EXCHANGE, low, high, length
    # Moves: a block taken out and put back elsewhere.
    moved = kind == 3
    long = np.minimum(1 + (draw[:, 2] ** 2 * max(size // 8, 1)).astype(np.int64), size - 2)
    take = 1 + (draw[:, 0] * (size - long)).astype(np.int64)
    put = 1 + (draw[:, 1] * (size - long)).astype(np.int64)
    take, put = np.minimum(take, size - long), np.minimum(put, size - long)
    moves[moved] = np.stack([np.full(steps, MOVE), take, take + long, put], axis=1)[moved]
    return moves


def _plain(
    evaluation: Evaluation, moves: NDArray[np.int64], slack: NDArray[np.float64], sign: float
) -> tuple[tuple[int, ...], float]:
    best, best_cost = evaluation.order, evaluation.cost
    for (kind, a, b, c), most in zip(moves.tolist(), slack.tolist()):
        cost = evaluation.exchange(a, b, c) if kind == EXCHANGE else evaluation.move(a, b, c)
        if sign * (cost - evaluation.cost) <= most:
            evaluation.accept()
            if sign * (cost - best_cost) < 0:
                best, best_cost = evaluation.order, cost
    return best, best_cost


def _compiled(
    model: CostModel,
    link_cost: LinkCost,
    start: Sequence[int],
    moves: NDArray[np.int64],
    slack: NDArray[np.float64],
    sign: float,
) -> tuple[tuple[int, ...], float]:
    kernel = kernels()
    if kernel is None:
        raise InternalError("annealing is to be compiled, and numba is not there")
    alpha, whole = link_cost.flat
    costs = (alpha, np.empty(0) if whole is None else whole)
    order = np.array(start, dtype=np.int64)
    if isinstance(model, TreeModel):
        best, cost = kernel.trees(order, *costs, HALF, *_tree_arrays(model, len(order)), moves, slack, sign)
    elif isinstance(model, RoundModel):
        best, cost = kernel.rounds(order, *costs, *_round_arrays(model, len(order)), moves, slack, sign)
    else:
        raise InternalError(f"{model.name} has no compiled run")
    return tuple(best.tolist()), float(cost)


def _round_arrays(model: RoundModel, ranks: int) -> tuple[NDArray[np.float64], ...]:
    phases = cached_phases(model, ranks)
    sizes = [len(of_rank) for of_rank in phases.touching]
    flat = [t for of_rank in phases.touching for t in of_rank]
    return (
        phases.src.astype(np.int64),
        phases.dst.astype(np.int64),
        phases.share,
        np.append(phases.starts, len(phases.src)).astype(np.int64),
        np.array(phases.times, dtype=np.float64),
        np.append(0, np.cumsum(sizes)).astype(np.int64),
        np.array(flat, dtype=np.int64),
    )


def _tree_arrays(model: TreeModel, ranks: int) -> tuple[NDArray[np.int64], ...]:
    trees = both_trees(model, ranks)
    sequence = [sorted(range(ranks), key=tree.depth.__getitem__, reverse=True) for tree in trees]
    counts = [[len(of_rank) for of_rank in tree.children] for tree in trees]
    return (
        np.array([tree.parent for tree in trees], dtype=np.int64),
        np.array(sequence, dtype=np.int64),
        np.array([[0, *np.cumsum(count)] for count in counts], dtype=np.int64),
        np.array([[c for of_rank in tree.children for c in of_rank] for tree in trees], dtype=np.int64),
    )
