"""Which strategy plans the order of which algorithm: the one place that looks at its name."""

from __future__ import annotations

from netprobe.core.documents.plan import Objective
from netprobe.core.errors import InputError
from netprobe.plan.costs import cost_model
from netprobe.plan.order.annealed import AnnealedStrategy
from netprobe.plan.order.rings import BottleneckRing, ChunkedRing, SumRing
from netprobe.plan.order.strategy import OrderStrategy

RINGS: dict[tuple[str, Objective], type[OrderStrategy]] = {
    ("ring", "sum"): SumRing,
    ("ring", "bottleneck"): BottleneckRing,
    ("chunked-ring", "sum"): ChunkedRing,
}
"""Algorithm and objective -> strategy. Every other algorithm is annealed, and has the objective ``sum`` only."""


def strategy_of(algorithm: str, objective: Objective = "sum") -> OrderStrategy:
    """How to order the ranks for ``algorithm``.

    Raises InputError for an unknown algorithm, or an objective that it does not have.
    """
    if not has_objective(algorithm, objective):
        raise InputError(f"the objective {objective} is only for the algorithm ring, not for {algorithm}")
    return RINGS.get((algorithm, objective), AnnealedStrategy)(cost_model(algorithm))


def has_objective(algorithm: str, objective: Objective) -> bool:
    """Whether the algorithm can be planned for the objective."""
    return objective == "sum" or (algorithm, objective) in RINGS


def objective_of(algorithm: str, objective: Objective) -> Objective:
    """``objective`` where ``algorithm`` has it, otherwise ``sum``: for costs of a plan's order to another algorithm."""
    return objective if has_objective(algorithm, objective) else "sum"
