"""Solvers: from distances to plans, and the one public loader of plan documents.

    ring.py        the ring solver: pure search, restarts, proof or bound     (numbers in, numbers out)
    moves.py       2-opt, Or-opt, 3-opt and kicks on one ring: kernels
    compiled.py    kernels made quick where numba is installed
    construct.py   rings to start from, neighbour lists, costs in whole units
    exact.py       proven best rings of a few hosts
    bounds.py      lower bounds of any ring
    onetree.py     Held and Karp's bound, for directed costs too
    anneal.py      one run of annealing, for all that is no ring; anneal_kernels.py, the same for numba to compile
    leaves.py      orders to start from: the leaves of the hierarchy
    polish.py      the best order of a few hosts, by CP-SAT
    candidates.py  given, leaf and sought orders of any algorithm             (numbers in, numbers out)
    held_out.py    what they cost on readings that they were not sought on, and which to trust
    figures.py     random orders
    order.py       plans of kind ``order``                                    (hosts and costs to a document)
    order_proof.py what such a plan says of itself, proved
    costs/         what an order costs each algorithm of a collective       (numbers in, numbers out)
    registry.py    the kinds of plans, load_plan, parse_plan

A new kind of plan is a module that ends with one ``register`` call and is imported here.
"""

from netprobe.plan.order.advice import Advice, advice_of
from netprobe.plan.order.link_costs import Links, links_of, message_bytes, one_way_cost_s
from netprobe.plan.order.order import build_order_plan
from netprobe.plan.order.order_proof import prove_against_map
from netprobe.plan.order.readings import Fold, HeldOutReadings
from netprobe.plan.order.request import OrderRequest
from netprobe.plan.registry import (
    PlanKind,
    load_plan,
    parse_plan,
    plan_json_schema,
    plan_kinds,
    prove_plan,
    register,
)
from netprobe.plan.search.ring import RingSolution, crossings, ring_cost, solve_ring

__all__ = [
    "Advice",
    "Fold",
    "HeldOutReadings",
    "Links",
    "OrderRequest",
    "PlanKind",
    "RingSolution",
    "advice_of",
    "build_order_plan",
    "crossings",
    "links_of",
    "load_plan",
    "message_bytes",
    "one_way_cost_s",
    "parse_plan",
    "plan_json_schema",
    "plan_kinds",
    "prove_against_map",
    "prove_plan",
    "register",
    "ring_cost",
    "solve_ring",
]
