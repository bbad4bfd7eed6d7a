"""The orders to compare: the plan's, and the baseline of the run, of the hosts that are up."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, plain_host
from netprobe.formats import load_hosts
from netprobe.pipeline.places import find_document
from netprobe.plan import load_plan
from netprobe.plan.order.strategies import strategy_of
from netprobe.verify.orders import spread_orders
from netprobe.verify.predict import ByCapacity, Predictor
from netprobe.verify.run import Contender, Contenders, VerifyOutcome

ORIGINAL, RANDOM = "given", "random"
"""The values of ``--against`` that are not files, and of ``comparison.against`` in the document."""
RANDOM_ORDERS = 8
"""Which take turns as the baseline ``random``."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The baseline of the plan's order: the original order (``given``), ``random``, or hosts in the order of a file."""

    name: str = ORIGINAL
    hosts: tuple[Host, ...] | None = None


def load_baseline(text: str) -> Baseline:
    """``given``, ``random``, or the hosts of a plan or hosts file in their order. Raises InputError."""
    if text in (ORIGINAL, RANDOM):
        return Baseline(name=text)
    path = Path(text)
    if not path.is_file():
        raise InputError(
            f"--against {text[:200]!r} is neither {ORIGINAL} nor {RANDOM} nor a file with an order"
        )
    try:
        with path.open("rb") as stream:
            is_document = stream.read(64).lstrip().startswith(b"{")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if not is_document:
        return Baseline(name=path.name, hosts=tuple(load_hosts(text)))
    other = load_plan(find_document(path, "plan"))
    if not isinstance(other, OrderPlan):
        raise InputError(f"{path}: is a plan of kind {other.kind}, not a rank order")
    by_name = {host.name: host for host in other.hosts}
    return Baseline(name=path.name, hosts=tuple(plain_host(by_name[name]) for name in other.order))


@dataclass(frozen=True, kw_only=True)
class ScheduleCase:
    """What `build_verify` has to know of a run of schedules."""

    plan: SchedulePlan
    against: Baseline
    algorithm: str
    size_bytes: int
    has_latency: bool = False
    orders: int = 0

    def predicted_by(self, outcome: VerifyOutcome) -> dict[str, object]:
        """Times of the simulator, and whether latencies were known to it."""
        if outcome.contenders is None or outcome.contenders.predicted_ratio is None:
            return {}
        return {
            "predicted_by": {"capacity": True, "size_bytes": self.size_bytes, "latency": self.has_latency}
        }

    @property
    def priced_bytes(self) -> int | None:
        """The simulator takes the size that is run."""
        return None


@dataclass(frozen=True)
class Case:
    """The orders to compare, of those hosts that are up."""

    plan: OrderPlan
    against: Baseline
    predictor: Predictor | None
    algorithm: str
    orders: int
    seed: int

    def __post_init__(self) -> None:
        """Raises InputError for a baseline of other hosts."""
        if self.against.hosts is not None:
            mine = [host for host in self.plan.hosts if host.name in set(self.plan.order)]
            theirs = [host for host in self.against.hosts if host.name not in set(self.plan.left_out)]
            check_same_hosts(
                [plain_host(host) for host in mine], theirs, what="the plan", source=self.against.name
            )

    def baseline(self, names: Sequence[str]) -> list[str]:
        """The file's order, or the original one under the plan's rank 0 (as the plan priced it)."""
        hosts = self.plan.hosts if self.against.hosts is None else self.against.hosts
        found = [host.name for host in hosts if host.name in set(names)]
        if self.against.hosts is not None:
            return found
        first = next(name for name in self.plan.order if name in set(names))
        strategy = strategy_of(self.plan.algorithm, self.plan.objective)
        order = strategy.with_root(range(len(found)), found.index(first))
        return [found[place] for place in order]

    def contenders(self, names: Sequence[str], up: Sequence[int]) -> Contenders:
        """The orders of ``up`` (indices into ``names``)."""
        here = {names[i]: i for i in up}
        best = tuple(here[name] for name in self.plan.order if name in here)
        others: list[tuple[str, tuple[int, ...]]]
        if self.against.name == RANDOM and self.against.hosts is None:
            rng = random.Random(self.seed)
            others = [
                (f"random {k + 1}", (best[0], *rng.sample(best[1:], len(best) - 1)))
                for k in range(RANDOM_ORDERS)
            ]
        else:
            others = [(self.against.name, tuple(here[name] for name in self.baseline(list(here))))]
        proposed = self._contender("proposed", names, best)
        baselines = tuple(self._contender(name, names, order) for name, order in others)
        return Contenders(
            proposed=proposed,
            baselines=baselines,
            surveyed=self._surveyed(names, best) if self.orders else (),
            predicted_ratio=self._predicted(proposed, baselines),
        )

    def _contender(self, name: str, names: Sequence[str], order: tuple[int, ...]) -> Contender:
        between = None
        if isinstance(self.predictor, ByCapacity):
            between = self.predictor.interval(self._in_plan(names, order))
        return Contender(
            name=name, order=order, predicted_s=self.price(names, order), predicted_between_s=between
        )

    def price(self, names: Sequence[str], order: Sequence[int]) -> float | None:
        """By the map; None without one."""
        if self.predictor is None:
            return None
        return float(self.predictor.costs([self._in_plan(names, order)])[0])

    def predicted_by(self, outcome: VerifyOutcome) -> dict[str, object]:
        """What the plan's model looked at: ``objective`` of a ring, and the bytes priced (null: latency alone)."""
        if outcome.contenders is None or outcome.contenders.predicted_ratio is None:
            return {}
        if isinstance(self.predictor, ByCapacity):
            return {
                "predicted_by": {
                    "capacity": True,
                    "size_bytes": self.predictor.size_bytes,
                    "latency": self.predictor.has_latency,
                }
            }
        objective = self.plan.objective if self.algorithm == "ring" else None
        return {"predicted_by": {"objective": objective, "size_bytes": self.plan.size_bytes}}

    @property
    def priced_bytes(self) -> int | None:
        """The buffer that predictions are of, where it need not be the one that is run."""
        return None if isinstance(self.predictor, ByCapacity) else self.plan.size_bytes

    def _predicted(self, proposed: Contender, baselines: Sequence[Contender]) -> float | None:
        costs = [one.predicted_s for one in baselines if one.predicted_s is not None]
        if proposed.predicted_s is not None and costs:
            return statistics.fmean(costs) / proposed.predicted_s if proposed.predicted_s else None
        whole = len(proposed.order) == len(self.plan.order) and self.algorithm == self.plan.algorithm
        if whole and self.against.name == ORIGINAL and self.against.hosts is None and self.plan.cost_s:
            return self.plan.cost_given_s / self.plan.cost_s
        return None

    def _surveyed(self, names: Sequence[str], best: tuple[int, ...]) -> tuple[Contender, ...]:
        assert self.predictor is not None
        where = {host.name: i for i, host in enumerate(self.plan.hosts)}
        back = {where[names[host]]: host for host in best}
        start = tuple(where[names[host]] for host in best)
        return tuple(
            Contender(
                name=f"percentile {one.percentile:.0f}",
                order=tuple(back[host] for host in one.order),
                predicted_s=float(self.predictor.costs([one.order])[0]),
                percentile=one.percentile,
            )
            for one in spread_orders(start, self.predictor.rough, self.orders, seed=self.seed)
        )

    def _in_plan(self, names: Sequence[str], order: Sequence[int]) -> list[int]:
        where = {host.name: i for i, host in enumerate(self.plan.hosts)}
        return [where[names[host]] for host in order]
