"""Cost models: what a rank order costs the algorithms of collectives, from the costs of links.

    link.py        what a transfer costs over a link
    model.py       the Protocol of a model; sums over rounds
    phases.py      rounds as arrays
    delta.py       costs of neighbours of an order
    ring.py        ring, chunked ring
    exchange.py    halving-doubling, recursive doubling, reduce-scatter, BCube
    tree.py        double binary trees: the dissertation's, NCCL's
    bounds.py      lower bounds of exchanges and trees

The models are those of Luo, *Towards More Efficient Communication for Distributed Learning Systems* (2020),
section 5.2.1; each class says what was corrected. Pure: numbers in, numbers out.
"""

from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.plan.costs.delta import Evaluation
from netprobe.plan.costs.exchange import BCube, HalvingDoubling, RecursiveDoubling, ReduceScatter
from netprobe.plan.costs.link import LinkCost, RankOrders, Ranks, latency_and_goodput, latency_only
from netprobe.plan.costs.model import CostModel
from netprobe.plan.costs.ring import ChunkedRing, Ring
from netprobe.plan.costs.tree import BinomialTree, DoubleBinaryTree, NcclTree

MODELS: dict[str, CostModel] = {
    model.name: model
    for model in (
        Ring(),
        ChunkedRing(),
        HalvingDoubling(),
        HalvingDoubling(nearest_first=False),
        RecursiveDoubling(),
        ReduceScatter(),
        BCube(),
        DoubleBinaryTree(),
        NcclTree(),
        BinomialTree(),
    )
}
"""Every model by the name a user gives."""


def cost_model(name: str) -> CostModel:
    """The model called ``name``. Raises InputError that lists the known ones."""
    if name not in MODELS:
        own = "; its command is netprobe plan 2lha" if name.lower() == "2lha" else ""
        raise InputError(
            f"no algorithm {name[:60]!r}: known are {', '.join(MODELS)}{meant(name, MODELS)}{own}"
        )
    return MODELS[name]


__all__ = [
    "MODELS",
    "BCube",
    "BinomialTree",
    "ChunkedRing",
    "CostModel",
    "DoubleBinaryTree",
    "Evaluation",
    "HalvingDoubling",
    "LinkCost",
    "NcclTree",
    "RankOrders",
    "Ranks",
    "RecursiveDoubling",
    "ReduceScatter",
    "Ring",
    "cost_model",
    "latency_and_goodput",
    "latency_only",
]
