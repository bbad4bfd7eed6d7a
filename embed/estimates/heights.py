"""What a host adds to all of its distances: found from hosts at the same place.

Two hosts of one rack see every third host from the same place, so the difference of their rows is one
constant: the difference of what their own stacks add. Rows are compared by shape (the spread of their
difference, and not its mean), hosts whose rows have one shape are taken for neighbours, and a host's height
is the mean of its row less that of its neighbours' rows. A host similar to no other has no neighbour to
be compared with, and its height is taken for zero: far away and slow cannot be distinguished there.

The dissertation fits h_i of equation 4.1 together with the coordinates (section 4.2.1, after Vivaldi,
Dabek et al. 2004). There the heights also take up the base round-trip time and much of what makes a rack a
rack; without such heights, racks are lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netprobe.core.numeric.medians import median
from netprobe.embed.estimates.blocks import LEAST_DISTANCE, product, row_similarity
from netprobe.embed.prepare import Prepared

# A host's neighbours count against this many that say its height is zero.
_PRIOR_NEIGHBOURS = 1.0
# Rows are compared over this share of the fleet at least: few third hosts may all be in one rack, and
# then a far host looks like a slow one. With half the pairs unmeasured there are no heights.
_LEAST_SHARED = 0.6
# Heights leave at least this share of a distance (there is no negative distance).
_LEAST_SHARE = 0.1


def relative_heights(prepared: Prepared, *, passes: int = 3) -> NDArray[np.float64]:
    """(N,) what each host adds beyond hosts like it, in the unit of ``prepared``; may be negative.

    ``prepared`` should be free of heavy outliers (see `winsorise`). The first pass compares the distances
    themselves, for a height is constant in them; later ones their logarithms, where the noise is more uniform,
    without the heights found so far, and add what is left of them.
    """
    n = len(prepared.distance)
    heights = np.zeros(n)
    if n < 4:
        return heights
    weight = prepared.measured.astype(np.float64)
    complete = int(weight.sum()) == n * (n - 1)
    # Without holes all pairs share n - 2 hosts, and what is said of pairs below is said once.
    common = np.array([[n - 2.0]]) if complete else product(weight, weight)
    enough = common >= max(2.0, _LEAST_SHARED * (n - 2))
    if not complete:
        np.fill_diagonal(enough, False)
    if not enough.any():
        return heights
    shared = np.where(enough, common, 1.0)
    apart = np.where(enough, _row_differences(prepared.distance, weight, complete=complete) / shared, 0.0)
    usual = max(float(median(common[enough])), 2.0)
    for number in range(passes):
        left = without_heights(prepared, heights)
        log_distance = _centred_logs(left) if number else left.distance
        difference = _shape_differences(log_distance, weight, shared, complete=complete)
        if not complete:
            difference[~enough] = np.inf
        np.fill_diagonal(difference, 0.0)
        near = row_similarity(difference, common=usual)
        np.fill_diagonal(near, 0.0)
        count = near.sum(axis=1)
        more = (near * apart).sum(axis=1) - heights * count + near @ heights
        heights = heights + more / (count + _PRIOR_NEIGHBOURS)
    return _about_the_median(heights, near)


def _shape_differences(
    log_distance: NDArray[np.float64],
    weight: NDArray[np.float64],
    shared: NDArray[np.float64],
    *,
    complete: bool,
) -> NDArray[np.float64]:
    """(N, N) spread of the difference of two rows over their ``shared`` hosts, its mean aside."""
    variance = product(log_distance, log_distance)
    variance *= -2.0
    squares = log_distance**2
    if complete:
        sums = squares.sum(axis=1)
        squares *= -2.0
        variance += squares
        variance += sums[:, None]
        variance += sums[None, :]
    else:
        squares = product(squares, weight)
        variance += squares
        variance += squares.T
    variance /= shared
    mean = _row_differences(log_distance, weight, complete=complete)
    mean /= shared
    mean *= mean
    variance -= mean
    np.maximum(variance, 0.0, out=variance)
    # A variance is smaller by its own mean: what two rows share tells less when they share little.
    variance *= shared / np.maximum(shared - 1.0, 1.0)
    return np.asarray(np.sqrt(variance, out=variance))


def without_heights(prepared: Prepared, heights: NDArray[np.float64]) -> Prepared:
    """The distances (N, N) less the ``heights`` (N,) of both ends, in the same unit, but never less than a tenth of
    themselves."""
    lower = prepared.distance - heights[:, None] - heights[None, :]
    distance = np.where(prepared.measured, np.maximum(lower, _LEAST_SHARE * prepared.distance), 0.0)
    return Prepared(distance=distance, measured=prepared.measured, scale_s=prepared.scale_s)


def _row_differences(
    values: NDArray[np.float64], weight: NDArray[np.float64], *, complete: bool
) -> NDArray[np.float64]:
    """(N, N) sum of row i of symmetric ``values``, zero on the diagonal, less that of row j, over the hosts that
    both were measured to."""
    if complete:
        # What the two are from each other is in both sums.
        sums = values.sum(axis=1)
        return np.asarray(sums[:, None] - sums[None, :])
    sums = product(values, weight)
    return np.asarray(sums - sums.T)


def _about_the_median(heights: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    """The heights less the median of each host's neighbourhood: one slow host makes no others quick."""
    weight = near + np.eye(len(near))
    order = np.argsort(heights, kind="stable")
    reached = np.cumsum(weight[:, order], axis=1)
    middle = (reached >= reached[:, -1:] / 2).argmax(axis=1)
    return np.asarray(heights - heights[order][middle])


def _centred_logs(prepared: Prepared) -> NDArray[np.float64]:
    measured = prepared.measured
    log_distance = np.where(measured, np.log(prepared.distance + LEAST_DISTANCE), 0.0)
    return np.where(measured, log_distance - log_distance.sum() / max(measured.sum(), 1), 0.0)
