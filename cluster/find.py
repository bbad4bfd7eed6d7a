"""Groups and verdict in one call: formed on the denoised distances, judged on the raw ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netprobe.cluster.balanced import sqrt_groups
from netprobe.cluster.judge import cannot_tell, judge_locality
from netprobe.cluster.natural import best_grouping, keep_or_join
from netprobe.cluster.records import METHODS, Grouping, Method, Verdict, numbered_by_first_member
from netprobe.cluster.sparse import MOST_UNTOLD, is_sparse, regroup, untold_share
from netprobe.core.errors import InputError


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
    missing; both in the same order of hosts, any unit. method: "natural" (by evidence) or "sqrt" (PLink's
    k = round(sqrt N), with ``elasticity`` 1.0 to 2.0). k: form this many groups.

    With the natural method and no ``k``, hosts without usable locality come back as one group. Groups that
    were asked for, by ``k`` or by method, are formed whatever the verdict says.

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
    else:
        grouping = best_grouping(distance_s, k=k)
        if k is None and is_sparse(raw_distance_s):
            grouping = _regrouped(grouping, raw_distance_s)
    untold = untold_share(raw_distance_s, grouping.labels) if "sparse" in grouping.evidence else 0.0
    if untold > MOST_UNTOLD:
        verdict = cannot_tell(
            f"too few pairs: {100 * untold:.0f} % of the pairs of hosts lie between groups of which no pair was "
            "measured, and which may be one; measure more pairs"
        )
    else:
        verdict = judge_locality(_without_excess(raw_distance_s, grouping), grouping.labels, seed=seed)
    if method == "natural" and k is None:
        grouping = keep_or_join(grouping, verdict)
    return grouping, verdict


def _regrouped(grouping: Grouping, raw_distance_s: NDArray[np.float64]) -> Grouping:
    labels = numbered_by_first_member(regroup(_without_excess(raw_distance_s, grouping), grouping.labels))
    evidence = {**grouping.evidence, "sparse": True}
    return replace(grouping, labels=labels, k=int(labels.max()) + 1, evidence=evidence)


def _without_excess(raw_distance_s: NDArray[np.float64], grouping: Grouping) -> NDArray[np.float64]:
    """The raw distances less what slow hosts add to all of theirs, as far as the grouping found it.

    A host that is slow towards everybody is no locality, and would drown that of all the others.
    """
    share = np.asarray(grouping.evidence.get("excess") or [], dtype=np.float64)
    raw = np.array(raw_distance_s, dtype=np.float64)
    between = ~np.eye(len(raw), dtype=bool) & ~np.isnan(raw) & (raw > 0)
    if share.shape != (len(raw),) or not share.any() or not between.any():
        return raw
    excess = share * np.median(raw[between])
    least = raw[between].min()
    reduced = np.maximum(raw - excess[:, None] - excess[None, :], least)
    return np.where(between, reduced, raw)
