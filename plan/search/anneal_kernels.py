"""One run of annealing as loops over arrays, for numba to compile; anneal.py has the same in plain Python.

Both price a neighbour with the same additions in the same sequence, and take the same moves in the same
order, so they end in the same order at the same cost, to the last bit. numba (the extra ``fast``) makes it a
hundred times as fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.compiled import compiled_kernels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
EXCHANGE, MOVE = 0, 1


class Kernels(NamedTuple):
    """The compiled runs."""

    rounds: Callable[..., Any]
    trees: Callable[..., Any]


def kernels() -> Kernels | None:
    """The runs, compiled at their first call; None where numba is not usable."""
    found = compiled_kernels(sys.modules[__name__])
    return None if found is None else Kernels(found["run_rounds"], found["run_trees"])


def moved(order: Ints, work: Ints, move: Ints) -> tuple[tuple[int, int], tuple[int, int]]:
    """Write ``order`` after ``move`` to ``work``, which is the same before; the two spans of ranks that differ."""
    kind, a, b, c = move[0], move[1], move[2], move[3]
    if kind == EXCHANGE:
        for i in range(c):
            work[a + i], work[b + i] = order[b + i], order[a + i]
        return (a, a + c), (b, b + c)
    length = b - a
    low, high = min(a, c), max(b, c + length)
    if c < a:
        for i in range(low, a):
            work[i + length] = order[i]
    else:
        for i in range(b, high):
            work[i - length] = order[i]
    for i in range(length):
        work[c + i] = order[a + i]
    return (low, high), (high, high)


def keep(spans: tuple[tuple[int, int], tuple[int, int]], source: Ints, target: Ints) -> None:
    """Copy the ranks of ``spans``."""
    for low, high in spans:
        for rank in range(low, high):
            target[rank] = source[rank]


def run_rounds(
    order: Ints,
    alpha: Floats,
    whole: Floats,
    src: Ints,
    dst: Ints,
    share: Floats,
    bounds: Ints,
    times: Floats,
    touch_at: Ints,
    touch: Ints,
    moves: Ints,
    slack: Floats,
    sign: float,
) -> tuple[Ints, float]:
    """Sums over rounds of the slowest transfer. ``alpha`` and ``whole`` (empty: none) are (N * N,) [src * N + dst].

    bounds (R + 1,): round i has transfers bounds[i] to bounds[i + 1] - 1. touch[touch_at[r]:touch_at[r + 1]] are
    the transfers of rank r. moves (M, 4): kind, first, second or last, length or to. A neighbour is taken when
    it costs at most slack (M,) more, times ``sign`` (-1 searches for the worst). Returns the best order and its cost.
    """
    size, transfers, rounds, sized = len(order), len(src), len(times), len(whole) > 0
    values, fresh = np.empty(transfers), np.empty(transfers)
    seen = np.full(transfers, -1, np.int64)
    touched = np.empty(transfers, np.int64)
    round_of = np.empty(transfers, np.int64)
    slowest, where = np.empty(rounds), np.empty(rounds, np.int64)
    next_slowest, next_where = np.empty(rounds), np.empty(rounds, np.int64)
    fresh_best = np.empty(rounds, np.int64)
    cost = 0.0
    for number in range(rounds):
        worst = -1.0
        for t in range(bounds[number], bounds[number + 1]):
            round_of[t] = number
            cell = order[src[t]] * size + order[dst[t]]
            value = alpha[cell]
            if sized:
                value = value + share[t] * whole[cell]
            values[t] = value
            if value > worst:
                worst = value
                slowest[number], where[number] = value, t
        cost += times[number] * slowest[number]
    best, best_cost = order.copy(), cost
    work = order.copy()
    for step in range(len(moves)):
        spans = moved(order, work, moves[step])
        count = 0
        for number in range(rounds):
            next_slowest[number], next_where[number] = slowest[number], where[number]
            fresh_best[number] = -1
        for low, high in spans:
            for rank in range(low, high):
                for place in range(touch_at[rank], touch_at[rank + 1]):
                    t = touch[place]
                    if seen[t] == step:
                        continue
                    seen[t] = step
                    touched[count] = t
                    count += 1
                    cell = work[src[t]] * size + work[dst[t]]
                    value = alpha[cell]
                    if sized:
                        value = value + share[t] * whole[cell]
                    fresh[t] = value
                    number = round_of[t]
                    if fresh_best[number] < 0 or value > fresh[fresh_best[number]]:
                        fresh_best[number] = t
        total = 0.0
        for number in range(rounds):
            t = fresh_best[number]
            if t >= 0:
                if fresh[t] >= slowest[number]:
                    next_slowest[number], next_where[number] = fresh[t], t
                elif seen[where[number]] == step:
                    # The slowest became faster: any transfer of the round may be the slowest now.
                    worst = -1.0
                    for other in range(bounds[number], bounds[number + 1]):
                        value = fresh[other] if seen[other] == step else values[other]
                        if value > worst:
                            worst = value
                            next_slowest[number], next_where[number] = value, other
            total += times[number] * next_slowest[number]
        if sign * (total - cost) <= slack[step]:
            cost = total
            for place in range(count):
                values[touched[place]] = fresh[touched[place]]
            for number in range(rounds):
                slowest[number], where[number] = next_slowest[number], next_where[number]
            keep(spans, work, order)
            if sign * (cost - best_cost) < 0:
                best[:] = order
                best_cost = cost
        else:
            keep(spans, order, work)
    return best, best_cost


def run_trees(
    order: Ints,
    alpha: Floats,
    whole: Floats,
    share: float,
    parent: Ints,
    sequence: Ints,
    child_at: Ints,
    child: Ints,
    moves: Ints,
    slack: Floats,
    sign: float,
) -> tuple[Ints, float]:
    """The slower of two trees, up and down. parent and sequence (2, N): the latter lists ranks, children first;
    child[tree, child_at[tree, r]:child_at[tree, r + 1]] are the children of rank r. The rest as in `run_rounds`.
    """
    size, sized = len(order), len(whole) > 0
    up, down = np.zeros((2, size)), np.zeros((2, size))
    next_up, next_down = np.zeros((2, size)), np.zeros((2, size))
    dirty = np.full((2, size), -1, np.int64)
    best, work = order.copy(), order.copy()
    cost, best_cost = 0.0, 0.0
    for step in range(-1, len(moves)):
        if step < 0:
            dirty[:] = -1
            spans = ((0, size), (size, size))
        else:
            spans = moved(order, work, moves[step])
            for low, high in spans:
                for rank in range(low, high):
                    for tree in range(2):
                        at = rank
                        while at >= 0 and dirty[tree, at] != step:
                            dirty[tree, at] = step
                            at = parent[tree, at]
        total = 0.0
        for tree in range(2):
            for place in range(size):
                rank = sequence[tree, place]
                if dirty[tree, rank] != step:
                    continue
                host, rises, falls = work[rank], 0.0, 0.0
                for number in range(child_at[tree, rank], child_at[tree, rank + 1]):
                    below = child[tree, number]
                    cell, back = work[below] * size + host, host * size + work[below]
                    there, again = alpha[cell], alpha[back]
                    if sized:
                        there, again = there + share * whole[cell], again + share * whole[back]
                    if dirty[tree, below] == step:
                        there, again = next_up[tree, below] + there, next_down[tree, below] + again
                    else:
                        there, again = up[tree, below] + there, down[tree, below] + again
                    rises, falls = max(rises, there), max(falls, again)
                next_up[tree, rank], next_down[tree, rank] = rises, falls
            root = sequence[tree, size - 1]
            if dirty[tree, root] == step:
                total = max(total, next_up[tree, root] + next_down[tree, root])
            else:
                total = max(total, up[tree, root] + down[tree, root])
        if step < 0 or sign * (total - cost) <= slack[step]:
            cost = total
            for tree in range(2):
                for rank in range(size):
                    if dirty[tree, rank] == step:
                        up[tree, rank], down[tree, rank] = next_up[tree, rank], next_down[tree, rank]
            keep(spans, work, order)
            if step < 0:
                best_cost = cost
            elif sign * (cost - best_cost) < 0:
                best[:] = order
                best_cost = cost
        else:
            keep(spans, order, work)
    return best, best_cost


KERNELS = ("moved", "keep", "run_rounds", "run_trees")
ENTRIES = ("run_rounds", "run_trees")
COMPILED: dict[str, Callable[..., object]] = {}
PARTS: tuple[ModuleType, ...] = ()
