"""How sure a distance is: split-conformal intervals from held-out pairs.

A second run of the method does not see some measured pairs. Their errors, each divided by how doubtful the
method itself was about that pair, are spread as those of any other unseen pair are (Vovk et al. 2005; Lei et
al. 2018, with a scale a pair): their 90 per cent quantile makes an interval that holds nine of ten unseen
readings, for any noise, as long as the choice of measured pairs does not depend on their distances.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

COVERAGE = 0.9


def interval_factor(
    error: NDArray[np.float64],
    doubt_of_held_out: NDArray[np.float64],
    doubt: NDArray[np.float64],
    *,
    noise: float,
) -> NDArray[np.float64] | None:
    """(N, N) f such that a reading lies within d / f to d * f of its distance d, nine times in ten.

    error: (M,) log(reading / distance) of held-out pairs; doubt_of_held_out: (M,) deviation the method gave
    them; doubt: (N, N) the same of the final run; noise: deviation of a reading (all in log units). None
    when there are too few pairs for that quantile (fewer than 9).
    """
    count = len(error)
    rank = math.ceil(COVERAGE * (count + 1))
    if rank > count:
        return None
    base = max(noise, 1e-6)
    scores = np.sort(np.abs(error) / np.sqrt(base**2 + doubt_of_held_out**2))
    factor = np.exp(np.minimum(scores[rank - 1] * np.sqrt(base**2 + doubt**2), 50.0))
    np.fill_diagonal(factor, 1.0)
    return np.asarray(factor, dtype=np.float64)
