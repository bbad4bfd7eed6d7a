"""Groups and verdict in one call: formed on the denoised distances, judged on the raw ones.

The pieces name their sources; putting them together so is netprobe's own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.anomalies.slow import rehomed, with_moved
from netprobe.cluster.balanced.sqrt_groups import sqrt_groups
from netprobe.cluster.levels import far_hosts, symmetric
from netprobe.cluster.locality_test import SIGNIFICANCE, cannot_tell, contrast_of, judge_locality
from netprobe.cluster.natural.candidates import best_candidate
from netprobe.cluster.natural.natural_groups import best_grouping, keep_or_join
from netprobe.cluster.natural.nested import all_levels
from netprobe.cluster.natural.stability import stability_of
from netprobe.cluster.records import METHODS, Grouping, Method, Verdict, numbered_by_first_member
from netprobe.cluster.regroup import MOST_UNTOLD, hidden_chance, is_sparse, untold_share
from netprobe.core.errors import InputError

# A far host joins a group when it is nearer to it than to the next one by so many standard errors.
_SURE = 4.0
# In a smaller fleet the interpreter is the bottleneck, and two threads wait for each other.
_FEWEST_AT_ONCE = 512


def find_groups(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    *,
    method: Method = "natural",
    k: int | None = None,
    elasticity: float = 1.0,
    seed: int,
) -> tuple[Grouping, Verdict]:
    """Group N hosts and say whether the groups mean anything.

    distance_s: (N, N) denoised and complete; raw_distance_s: (N, N) ``[src, dst]`` as measured, NaN where
    missing; both in the same order of hosts, any unit. method: "natural" (by evidence), "sqrt" (PLink's
    k = round(sqrt N), with ``elasticity`` 1.0 to 2.0), or "auto": natural groups where there is locality, and
    even ones of PLink's number where there is none to lose. k: form this many groups.

    With the natural method and no ``k``, hosts without usable locality come back as one group. Groups that
    were asked for, by ``k`` or by method, are formed whatever the verdict says. Where groups are nested the
    finest level that the readings bear out is the grouping, and ``evidence["levels"]`` lists all of them.
    A host that is far from everybody (`levels.far_hosts`) is placed after the others.

    Raises InputError for bad matrices or options, InfeasibleError for a k that N hosts cannot form.
    """
    if method not in METHODS:
        raise InputError(f"grouping method is {method!r}, not one of {', '.join(METHODS)}")
    if np.shape(distance_s) != np.shape(raw_distance_s):
        raise InputError(
            f"denoised distances of shape {np.shape(distance_s)} for raw ones of {np.shape(raw_distance_s)}"
        )
    if method == "sqrt":
        grouping = sqrt_groups(distance_s, elasticity=elasticity, k=k, seed=seed)
        return grouping, judge_locality(raw_distance_s, grouping.labels, seed=seed)
    if k is not None:
        grouping = best_grouping(distance_s, k=k)
        return grouping, judge_locality(raw_distance_s, grouping.labels, seed=seed)
    grouping, verdict = _natural(distance_s, raw_distance_s, seed=seed)
    if method == "auto" and verdict.locality == "none" and len(grouping.labels) > 2:
        return sqrt_groups(distance_s, elasticity=elasticity, seed=seed), verdict
    return grouping, verdict


def compare_methods(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    found: Grouping,
    *,
    elasticity: float = 2.0,
    seed: int,
) -> list[dict[str, object]]:
    """Natural groups beside PLink's: ``method``, ``k``, ``smallest``, ``largest`` and ``contrast`` of each.

    found: what `find_groups` gave, by either method; the other one is formed here. The contrast is the median
    measured distance across groups over that inside, None where there is none. Matrices are (N, N) in seconds,
    further arguments and errors those of `find_groups`.
    """
    if found.method == "sqrt":
        both = (_natural(distance_s, raw_distance_s, seed=seed)[0], found)
    else:
        both = (found, sqrt_groups(distance_s, elasticity=elasticity, seed=seed))
    matrix = symmetric(raw_distance_s)
    rows: list[dict[str, object]] = []
    for grouping in both:
        sizes = np.bincount(grouping.labels)
        rows.append(
            {
                "method": grouping.method,
                "k": grouping.k,
                "smallest": int(sizes.min()),
                "largest": int(sizes.max()),
                "contrast": contrast_of(matrix, grouping.labels),
            }
        )
    return rows


def _natural(
    distance_s: NDArray[np.float64], raw_distance_s: NDArray[np.float64], *, seed: int
) -> tuple[Grouping, Verdict]:
    raw = np.asarray(raw_distance_s, dtype=np.float64)
    far = far_hosts(symmetric(raw))
    near = np.flatnonzero(~far)
    part, smooth = raw[np.ix_(near, near)], np.asarray(distance_s)[np.ix_(near, near)]
    grouping = best_candidate(smooth, part)
    untold = untold_share(part, grouping.labels) if is_sparse(part) else 0.0
    if untold > MOST_UNTOLD:
        verdict = cannot_tell(
            f"too few pairs: {100 * untold:.0f} % of the pairs of hosts lie between groups of which no pair was "
            "measured, and which may be one; measure more pairs"
        )
    else:
        verdict = _unless_hidden(judge_locality(part, grouping.labels, seed=seed), part)
    kept = keep_or_join(grouping, verdict)
    evidence = dict(kept.evidence)
    labels = kept.labels
    if verdict.locality == "found" and kept.k > 1:
        # Neither knows of the other: in a large fleet they go on at once.
        with ThreadPoolExecutor(1) as beside:
            stability = beside.submit(stability_of, part, kept.labels, seed=seed)
            if len(part) < _FEWEST_AT_ONCE:
                stability.result()
            levels = all_levels(smooth, part, labels, seed=seed)
        levels = with_moved(levels, rehomed(part, levels[0]))
        labels = levels[0]
        joined = symmetric(part)
        evidence["levels"] = [_level(level, labels, joined) for level in levels]
        evidence["stability"] = stability.result()
        evidence["gap"] = verdict.gap
    if far.any():
        labels = _placed(symmetric(raw), far, labels)
        evidence["far_hosts"] = np.flatnonzero(far).tolist()
    labels = numbered_by_first_member(labels)
    changed = len(labels) != len(grouping.labels) or not np.array_equal(labels, grouping.labels)
    grouping = replace(kept, labels=labels, k=int(labels.max()) + 1, evidence=evidence)
    if changed and kept.k > 1:
        verdict = judge_locality(raw, labels, seed=seed, p_value=verdict.p_value)
    return grouping, verdict


def _unless_hidden(verdict: Verdict, raw: NDArray[np.float64]) -> Verdict:
    """No locality among the measured pairs is none only where a group's own pairs would have been among them."""
    size, chance = hidden_chance(raw)
    if verdict.locality != "none" or chance <= SIGNIFICANCE:
        return verdict
    return cannot_tell(
        f"too few pairs: those that were measured show no locality, and a group of {size} hosts may lie in the "
        "others; measure more pairs"
    )


def _level(
    level: NDArray[np.int64], finest: NDArray[np.int64], matrix: NDArray[np.float64]
) -> dict[str, object]:
    """One level of nesting: how many groups, their contrast, and which of them each finest group is in."""
    parents = [int(level[np.flatnonzero(finest == group)[0]]) for group in range(int(finest.max()) + 1)]
    return {"k": int(level.max()) + 1, "contrast": contrast_of(matrix, level), "of_groups": parents}


def _placed(
    matrix: NDArray[np.float64], far: NDArray[np.bool_], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(N,) labels of all hosts: a far one joins the group it is clearly nearest to, or stays alone.

    labels: of the hosts that are not far. Where those are all one group, everybody is.
    """
    found = np.full(len(far), -1, dtype=np.int64)
    found[~far] = labels
    k = int(labels.max()) + 1
    if k == 1:
        return np.zeros(len(far), dtype=np.int64)
    alone = k
    for host in np.flatnonzero(far).tolist():
        rows = [matrix[host][(found == group) & ~far] for group in range(k)]
        rows = [row[np.isfinite(row)] for row in rows]
        middle = np.array([np.median(row) if len(row) else np.inf for row in rows])
        best = int(middle.argmin())
        others = np.concatenate([row for group, row in enumerate(rows) if group != best])
        rest = np.concatenate([row - np.median(row) for row in rows if len(row)])
        error = (
            1.4826 * float(np.median(np.abs(rest))) * np.sqrt(1 / len(rows[best]) + 1 / max(len(others), 1))
        )
        if len(others) and float(np.median(others)) - middle[best] > _SURE * error:
            found[host] = best
        else:
            found[host] = alone
            alone += 1
    return found
