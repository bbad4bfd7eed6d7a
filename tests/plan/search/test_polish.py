"""What is handed to CP-SAT is the cost of an order: a stand-in that tries all orders finds the cheapest by it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.plan.costs import LinkCost, cost_model
from netprobe.plan.search import polish as module
from netprobe.plan.search.polish import polish


class Term:
    """A number that depends on the values of variables."""

    def __init__(self, value: Callable[[], float]) -> None:
        self.value = value

    def __add__(self, other: Any) -> Term:
        return Term(lambda: self.value() + number(other))

    __radd__ = __add__

    def __mul__(self, other: int) -> Term:
        return Term(lambda: self.value() * other)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        return ("equal", self, other)

    def __ge__(self, other: Any) -> Any:
        return ("least", self, other)

    __hash__ = object.__hash__


class Variable(Term):
    """Holds a value between its ends."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(lambda: self.held)
        self.low, self.high, self.held = low, high, float(low)


def number(term: Any) -> float:
    return float(term.value()) if isinstance(term, Term) else float(term)


class Model:
    """Collects variables and constraints, in the sequence in which each follows from those before it."""

    def __init__(self) -> None:
        self.rules: list[tuple[str, Any, Any]] = []
        self.derived: list[Variable] = []
        self.different: list[Variable] = []
        self.hints: list[tuple[Variable, int]] = []
        self.objective: Any = 0

    def new_int_var(self, low: int, high: int, _name: str) -> Variable:
        made = Variable(low, high)
        self.derived.append(made)
        return made

    def add_all_different(self, variables: Sequence[Variable]) -> None:
        self.different = list(variables)

    def add(self, rule: tuple[str, Any, Any]) -> None:
        self.rules.append(rule)

    def add_hint(self, variable: Variable, value: int) -> None:
        self.hints.append((variable, value))

    def add_element(self, place: Any, table: Sequence[int], target: Variable) -> None:
        self.rules.append(("equal", target, Term(lambda: table[int(number(place))])))

    def minimize(self, objective: Any) -> None:
        self.objective = objective


class Solver:
    """Tries every order; of variables that are only bounded from below the least values hold."""

    status = 4

    def __init__(self) -> None:
        self.parameters = SimpleNamespace()
        made.append(self)

    def solve(self, model: Model) -> int:
        self.model = model
        best = None
        for order in itertools.permutations(range(len(model.different))):
            cost = self.cost(model, order)
            if cost is not None and (best is None or cost < best):
                best, self.found = cost, dict(zip(map(id, model.different), order, strict=True))
        return self.status

    def cost(self, model: Model, order: Sequence[int]) -> float | None:
        for variable in model.derived:
            variable.held = float(variable.low)
        for variable, value in zip(model.different, order, strict=True):
            variable.held = float(value)
        # Until nothing changes: what depends on the deepest ranks may have been written before them.
        for _ in range(len(model.rules)):
            before = [variable.held for variable in model.derived]
            for kind, one, other in model.rules:
                if any(one is variable for variable in model.different):
                    if one.held != number(other):
                        return None
                elif isinstance(one, Variable):
                    one.held = number(other) if kind == "equal" else max(one.held, number(other))
            if before == [variable.held for variable in model.derived]:
                break
        assert all(variable.low <= variable.held <= variable.high for variable in model.derived)
        return number(model.objective)

    def value(self, variable: Variable) -> int:
        return int(self.found[id(variable)])


made: list[Solver] = []


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    cp_model = ModuleType("cp_model")
    vars(cp_model).update(CpModel=Model, CpSolver=Solver, OPTIMAL=4, FEASIBLE=2)
    package = ModuleType("ortools.sat.python")
    vars(package).update(cp_model=cp_model)
    for name, its in (("ortools", ModuleType("ortools")), ("ortools.sat", ModuleType("ortools.sat"))):
        monkeypatch.setitem(sys.modules, name, its)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", package)
    monkeypatch.setattr(module, "find_spec", lambda _name: object())
    monkeypatch.setattr(Solver, "status", 4)


def link(size: int, seed: int, *, sized: bool) -> LinkCost:
    rng = np.random.default_rng(seed)
    beta = rng.uniform(1.0, 9.0, (size, size)) if sized else None
    return LinkCost(
        alpha_s=rng.uniform(1e-5, 9e-5, (size, size)), beta_s_per_byte=beta, size_bytes=1e-5 if sized else 0.0
    )


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "halving-doubling",
        "reduce-scatter",
        "bcube",
        "double-binary-tree",
        "nccl-tree",
        "ring",
        "chunked-ring",
    ],
)
def test_the_expression_is_the_cost(name: str, sized: bool) -> None:
    model, costs = cost_model(name), link(5, 3, sized=sized)
    start = [2, 0, 1, 4, 3]
    found = polish(model, costs, start, seconds=7.5, seed=(1 << 31) + 5)
    orders = [(2, *rest) for rest in itertools.permutations((0, 1, 3, 4))]
    assert found.proven and found.order[0] == 2
    assert model.cost(found.order, costs) == pytest.approx(
        min(model.cost(o, costs) for o in orders), rel=1e-5
    )
    # Of every order, in whole units of a millionth of the largest transfer.
    solver = made[0]
    unit = costs.matrix(1.0).max() / module.GRID
    for order in orders:
        priced = solver.cost(solver.model, order)
        assert priced is not None and priced * unit == pytest.approx(model.cost(order, costs), rel=1e-4)
    assert solver.cost(solver.model, (0, 1, 2, 3, 4)) is None  # another root
    assert vars(solver.parameters) == {"max_time_in_seconds": 7.5, "random_seed": 5, "num_workers": 1}
    assert [value for _, value in solver.model.hints] == start
    assert [variable for variable, _ in solver.model.hints] == solver.model.different


@pytest.mark.parametrize(
    ("status", "proven", "kept"), [(4, True, False), (2, False, False), (3, False, True)]
)
def test_what_was_found_in_time_is_taken_and_only_an_optimum_is_proven(
    status: int, proven: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Solver, "status", status)
    costs, start = link(5, 8, sized=False), (0, 1, 2, 3, 4)
    found = polish(cost_model("nccl-tree"), costs, start, seconds=1.0)
    assert found.proven is proven and (found.order == start) == kept
    for few in ((1,), (1, 0)):
        whole = polish(cost_model("bcube"), link(2, 1, sized=False), few, seconds=1.0)
        assert (whole.order, whole.proven) == (few, True)
