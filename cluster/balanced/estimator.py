"""The constrained k-means as an estimator of scikit-learn. This module is imported on first use only."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netprobe.cluster.balanced.kmeans import constrained_kmeans
from netprobe.cluster.balanced.lloyd import DescentOptions, balanced_sizes, squared_distances
from netprobe.core.errors import InfeasibleError, PlatformError

try:
    from sklearn.base import BaseEstimator, ClusterMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise PlatformError(
        "ConstrainedKMeans needs scikit-learn, which is not installed: pip install 'netprobe-fleet[map]'"
    ) from None


try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6 it is a method

    def validate_data(estimator: Any, X: ArrayLike, **options: Any) -> Any:
        """What 1.6 made a function."""
        return estimator._validate_data(X, **options)


class ConstrainedKMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """k-means with a least and a largest group size, k-means++ starts and an exact assignment step.

    n_clusters: number of groups, all of which occur while ``size_min`` is at least 1; None: round(sqrt N).
    size_min: least size of a group (1); size_max: largest (None: no limit).
    elasticity: None, or PLink's balance elasticity 1.0 (as even as can be) to 2.0, which sets the least size
        in place of ``size_min``: floor(sqrt N / elasticity), or floor(N / k / elasticity) for a given k.
    n_init: starts; max_iter: of one descent; tol: as in sklearn.cluster.KMeans.
    swaps: the best of the starts goes on with a centre moved from where it is least missed to where it is most
        needed, until so many such swaps in a row did not help; 0 for none.
    random_state: None, an int or a RandomState.

    Attributes after `fit`: ``labels_`` (N,), ``cluster_centers_`` (k, D), ``inertia_`` (sum of squared
    distances to the centres), ``n_iter_`` of the best descent, ``n_features_in_``.

    Source: dissertation, section 4.2.1 (constrained k-means with k-means++); Bradley, Bennett and Demiriz,
    "Constrained k-means clustering", 2000.
    """

    def __init__(
        self,
        n_clusters: int | None = 8,
        *,
        size_min: int = 1,
        size_max: int | None = None,
        elasticity: float | None = None,
        n_init: int = 10,
        max_iter: int = 300,
        tol: float = 1e-4,
        swaps: int = 5,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.size_max = size_max
        self.elasticity = elasticity
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.swaps = swaps
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> ConstrainedKMeans:  # noqa: ARG002
        """Group the N points of X (N, D).

        Raises InfeasibleError, with the feasible range, when the size limits cannot be met, and InputError
        for an elasticity out of range. Warns with ConvergenceWarning when the best descent ran out of
        iterations.
        """
        points = validate_data(self, X, dtype=np.float64)
        if self.n_init < 1 or self.max_iter < 1:
            raise InfeasibleError(f"n_init is {self.n_init} and max_iter {self.max_iter}: both at least 1")
        if self.swaps < 0:
            raise InfeasibleError(f"swaps is {self.swaps}: at least 0")
        k, size_min = balanced_sizes(
            len(points), self.n_clusters, 1.0 if self.elasticity is None else self.elasticity
        )
        run = constrained_kmeans(
            points,
            k,
            options=DescentOptions(
                size_min=self.size_min if self.elasticity is None else size_min,
                size_max=len(points) if self.size_max is None else self.size_max,
                max_iter=self.max_iter,
                tol=self.tol,
            ),
            restarts=self.n_init,
            swaps=self.swaps,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        if not run.converged:
            warnings.warn(
                f"constrained k-means did not converge in {self.max_iter} iterations",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.labels_ = run.labels
        self.cluster_centers_ = run.centres
        self.inertia_ = run.inertia
        self.n_iter_ = run.iterations
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(N,) nearest centre of each new point; the size limits hold for the fitted points only."""
        check_is_fitted(self)
        points = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(squared_distances(points, self.cluster_centers_).argmin(axis=1), dtype=np.int64)
