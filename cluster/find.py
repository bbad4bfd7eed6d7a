"""Groups and verdict in one call: formed on the denoised distances, judged on the raw ones.

Each piece names its source; the combination is netprobe's own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.anomalies.reassign import reassigned_hosts, with_reassigned
from netprobe.cluster.balanced.sqrt_groups import sqrt_groups
from netprobe.cluster.distances.canonical import canonical_order
from netprobe.cluster.distances.coverage import MOST_UNOBSERVED, hidden_chance, is_sparse, unobserved_share
from netprobe.cluster.distances.pairs import far_hosts, symmetric
from netprobe.cluster.locality_test import (
    SIGNIFICANCE,
    LocalityTest,
    cannot_tell,
    contrast_of,
    run_locality_test,
)
from netprobe.cluster.natural.candidates import best_candidate
from netprobe.cluster.natural.nested import nested_tiers
from netprobe.cluster.natural.number_of_groups import best_grouping, keep_or_join
from netprobe.cluster.natural.stability import stability_of
from netprobe.cluster.records import METHODS, Method, Partition, numbered_by_first_member
from netprobe.core.documents.map import Verdict
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
) -> tuple[Partition, Verdict]:
    """Group N hosts and say whether the groups mean anything.

    distance_s: (N, N) denoised and complete; raw_distance_s: (N, N) ``[src, dst]`` as measured, NaN where
    missing; both in the same order of hosts, any unit. method: "natural" (by evidence), "sqrt" (PLink's
    k = round(sqrt N), with ``elasticity`` 1.0 to 2.0), or "auto": natural groups where there is locality, and
    PLink's even ones where there is none. k: form this many groups.

    With the natural method and no ``k``, hosts without usable locality come back as one group. Groups requested
    by ``k`` or by method "sqrt" are formed regardless of the verdict. Where groups are nested (racks in rows) the
    finest tier that the readings support is the partition, and ``evidence["levels"]`` lists all tiers.
    A host that is far from everybody (`far_hosts`) is placed after the others. Neither the unit nor the order of the
    hosts decides anything: all is computed in the order of `canonical_order`.

    Raises InputError for bad matrices or options, InfeasibleError for a k that N hosts cannot form.
    """
    if method not in METHODS:
        raise InputError(f"grouping method is {method!r}, not one of {', '.join(METHODS)}")
    if np.shape(distance_s) != np.shape(raw_distance_s):
        raise InputError(
            f"denoised distances of shape {np.shape(distance_s)} for raw ones of {np.shape(raw_distance_s)}"
        )
    order = canonical_order(raw_distance_s, distance_s)
    block = np.ix_(order, order)
    denoised, raw = np.asarray(distance_s)[block], np.asarray(raw_distance_s)[block]
    if method == "sqrt":
        grouping = sqrt_groups(denoised, elasticity=elasticity, k=k, seed=seed)
        verdict = run_locality_test(raw, grouping.labels, seed=seed).verdict
    elif k is not None:
        grouping = best_grouping(denoised, k=k)
        verdict = run_locality_test(raw, grouping.labels, seed=seed).verdict
    else:
        grouping, verdict = _natural(denoised, raw, seed=seed)
        if method == "auto" and verdict.locality == "none" and len(grouping.labels) > 2:
            grouping = sqrt_groups(denoised, elasticity=elasticity, seed=seed)
    return grouping.put_back(order), verdict


def compare_methods(
    distance_s: NDArray[np.float64],
    raw_distance_s: NDArray[np.float64],
    found: Partition,
    *,
    elasticity: float = 2.0,
    seed: int,
) -> list[dict[str, object]]:
    """Natural groups and PLink's: ``method``, ``k``, ``smallest``, ``largest`` and ``contrast`` of each.

    found: the result of `find_groups`, by either method; the other one is formed here. The contrast is the median
    measured distance across groups over that inside, None where there is none. Matrices are (N, N) in seconds,
    further arguments and errors those of `find_groups`.
    """
    order = canonical_order(raw_distance_s, distance_s)
    block = np.ix_(order, order)
    denoised, raw = np.asarray(distance_s)[block], np.asarray(raw_distance_s)[block]
    if found.method == "sqrt":
        both = (_natural(denoised, raw, seed=seed)[0].put_back(order), found)
    else:
        both = (found, sqrt_groups(denoised, elasticity=elasticity, seed=seed).put_back(order))
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
) -> tuple[Partition, Verdict]:
    """Groups by evidence and their verdict: `find_groups` with the natural method and no ``k``."""
    raw = np.asarray(raw_distance_s, dtype=np.float64)
    far = far_hosts(symmetric(raw))
    near = np.flatnonzero(~far)
    part, denoised = raw[np.ix_(near, near)], np.asarray(distance_s)[np.ix_(near, near)]
    candidate = best_candidate(denoised, part)
    test = _test_of(candidate, part, seed=seed)
    kept = keep_or_join(candidate, test.verdict)
    evidence = dict(kept.evidence)
    labels = kept.labels
    if test.verdict.locality == "found" and kept.k > 1:
        labels, nesting = _nested(denoised, part, labels, seed=seed)
        evidence |= nesting
        evidence["gap"] = test.gap_statistic
    if far.any():
        labels = _placed(symmetric(raw), far, labels)
        evidence["far_hosts"] = np.flatnonzero(far).tolist()
        if isinstance(excess := evidence.get("excess"), list) and excess:
            of_all = np.zeros(len(far))
            of_all[near] = excess
            evidence["excess"] = of_all.tolist()
    labels = numbered_by_first_member(labels)
    verdict = test.verdict
    changed = len(labels) != len(candidate.labels) or not np.array_equal(labels, candidate.labels)
    if changed and kept.k > 1:
        verdict = run_locality_test(raw, labels, seed=seed, p_value=verdict.p_value).verdict
    return replace(kept, labels=labels, evidence=evidence), verdict


def _test_of(candidate: Partition, raw: NDArray[np.float64], *, seed: int) -> LocalityTest:
    """The locality test of a partition; of a sparse matrix, only where the measured pairs can decide it."""
    unobserved = unobserved_share(raw, candidate.labels) if is_sparse(raw) else 0.0
    if unobserved > MOST_UNOBSERVED:
        return cannot_tell(
            f"too few pairs: {100 * unobserved:.0f} % of the pairs of hosts lie between groups of which no pair was "
            "measured, and which may be one; measure more pairs"
        )
    test = run_locality_test(raw, candidate.labels, seed=seed)
    size, chance = hidden_chance(raw)
    if test.verdict.locality != "none" or chance <= SIGNIFICANCE:
        return test
    # The pairs of a small group may all be among those that were not measured.
    return cannot_tell(
        f"too few pairs: those that were measured show no locality, and a group of {size} hosts may lie in the "
        "others; measure more pairs"
    )


def _nested(
    denoised: NDArray[np.float64], raw: NDArray[np.float64], labels: NDArray[np.int64], *, seed: int
) -> tuple[NDArray[np.int64], dict[str, object]]:
    """(N,) labels of the finest tier, slow hosts reassigned; and the evidence: all tiers, and stability."""
    # The two are independent: in a large fleet they run concurrently.
    with ThreadPoolExecutor(1) as executor:
        stability = executor.submit(stability_of, raw, labels, seed=seed)
        if len(raw) < _FEWEST_AT_ONCE:
            stability.result()
        tiers = nested_tiers(denoised, raw, labels, seed=seed)
    tiers = with_reassigned(tiers, reassigned_hosts(raw, tiers[0]))
    joined = symmetric(raw)
    summaries = [_tier(tier, tiers[0], joined) for tier in tiers]
    return tiers[0], {"levels": summaries, "stability": stability.result()}


def _tier(
    tier: NDArray[np.int64], finest: NDArray[np.int64], matrix: NDArray[np.float64]
) -> dict[str, object]:
    """One tier of nesting: how many groups, their contrast, and the group of this tier of each finest group."""
    parents = [int(tier[np.flatnonzero(finest == group)[0]]) for group in range(int(finest.max()) + 1)]
    return {"k": int(tier.max()) + 1, "contrast": contrast_of(matrix, tier), "of_groups": parents}


def _placed(
    matrix: NDArray[np.float64], far: NDArray[np.bool_], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(N,) labels of all hosts: a far host joins the group it is clearly nearest to, or is a group of its own.

    labels: of the hosts that are not far. Where those are all one group, the far hosts join it.
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
