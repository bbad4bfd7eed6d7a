"""plan -> verify: the plan's order against another one, run on the hosts themselves."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.capacity import Capacity
from netprobe.core.document import check_same_hosts
from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.core.interrupts import signals_held
from netprobe.core.map import Map
from netprobe.core.plan import OrderPlan
from netprobe.core.scan import ScannedHost
from netprobe.core.verify import Comparison, RankCorrelation, VerifiedOrder, VerifiedRepetition, Verify
from netprobe.formats import load_hosts
from netprobe.pipeline import files
from netprobe.plan import load_plan, verify_against_map
from netprobe.plan.candidates import turned
from netprobe.plan.costs import cost_model
from netprobe.plan.order import plain_host
from netprobe.plan.shared_links import SharedLinks
from netprobe.probe.events import OnEvent, ignore
from netprobe.probe.launch import Launcher
from netprobe.probe.options import ScanOptions
from netprobe.report.units import count
from netprobe.verify.compare import verdict_of
from netprobe.verify.correlate import correlate
from netprobe.verify.library import Library
from netprobe.verify.orders import spread_orders
from netprobe.verify.predict import ByCapacity, ByMap, Predictor
from netprobe.verify.program import ON_THE_WIRE
from netprobe.verify.run import LEAST_HOSTS, Contender, Contenders, VerifyOptions, VerifyOutcome, run_verify
from netprobe.verify.run_library import algorithm_of, run_library

GIVEN, RANDOM = "given", "random"
LIBRARY_START_S = 240.0
"""torch alone takes 20 s where 16 processes import it on two cores."""
RANDOM_ORDERS = 8
"""Which take turns as the baseline ``random``."""
LEFT_OUT = "the plan leaves it out: it had no reading"
SAME_ORDER = "the plan's order is the one it would be compared with: there is nothing to run"


class NothingVerifiedError(NothingMeasuredError):
    """No pair of repetitions was made; ``document`` says of each host why."""

    def __init__(self, document: Verify) -> None:
        self.document = document
        super().__init__(
            f"nothing was verified: {document.reason or 'see the hosts'}",
            nobody_up=all(host.status != "ok" for host in document.hosts),
        )


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What the plan's order is compared with: ``given``, ``random``, or hosts in the order of a file."""

    name: str = GIVEN
    hosts: tuple[Host, ...] | None = None


def verify_order(
    plan: OrderPlan,
    *,
    launcher: Launcher,
    map_: Map | None = None,
    capacity: Capacity | None = None,
    against: Baseline | None = None,
    algorithm: str | None = None,
    orders: int = 0,
    library: Library | None = None,
    path: Path | None = None,
    options: ScanOptions | None = None,
    verify: VerifyOptions | None = None,
    choose_addresses: bool = False,
    on_event: OnEvent = ignore,
) -> Verify:
    """Run the plan's order against another one, and write the document to ``path``.

    On the addresses that the plan has, or with ``choose_addresses`` on those that ``options`` choose among what
    the hosts have. ``orders`` more, spread over the range of predicted costs, tell whether prediction and
    measurement agree; they need ``map_`` or ``capacity``, which predicts times where both are given. ``library``
    runs them in the place of the agents.

    Raises InputError for what does not belong together, NothingVerifiedError when no pair of repetitions was
    made, and InterruptedScanError after Ctrl-C; what was measured is written all the same, but for a document
    without any over one that is there.
    """
    against, options, verify = against or Baseline(), options or ScanOptions(), verify or VerifyOptions()
    name = algorithm or plan.algorithm
    model = cost_model(ON_THE_WIRE.get(name, name))
    if orders and map_ is None and capacity is None:
        raise InputError(
            "orders at percentiles of the predicted cost need what predicts it: give --map or --capacity"
        )
    if map_ is not None:
        verify_against_map(plan, map_, source="plan")
    case = _Case(
        plan, against, _predictor(plan, map_, capacity, name, verify.size_bytes), name, orders, verify.seed
    )
    ranked = [plain_host(host) for host in plan.hosts if host.name in set(plan.order)]
    if choose_addresses:
        ranked = [host.model_copy(update={"address": None}) for host in ranked]
    names = [host.name for host in ranked]
    ran = model.name if library is None else algorithm_of(library, model.name)
    method = "tcp" if library is None else library.name
    if library is not None and choose_addresses:
        raise InputError(
            "--interface, --subnet and their like are for netprobe's own agents, not with --with"
        )
    if len(ranked) < LEAST_HOSTS:
        raise NothingVerifiedError(
            build_verify(
                case, [map_, capacity], VerifyOutcome(stopped=_few(len(ranked))), verify, ran, method
            )
        )
    if orders == 0 and against.name != RANDOM and case.baseline(names) == plan.order:
        outcome = VerifyOutcome(contenders=case.contenders(names, range(len(names))))
        document = build_verify(case, [map_, capacity], outcome, verify, ran, method)
        late: list[int] = []
        saved = files.save_measured(document, path) if path is not None else None
    else:
        with signals_held() as late:

            def arrange(up: Sequence[int]) -> Contenders:
                return case.contenders(names, up)

            if library is None:
                outcome = run_verify(ranked, model, arrange, launcher, options, verify, on_event=on_event)
            else:
                wait_s = max(options.start_timeout_s, LIBRARY_START_S)
                outcome = run_library(
                    ranked, library, ran, arrange, verify, start_timeout_s=wait_s, on_event=on_event
                )
            document = build_verify(case, [map_, capacity], outcome, verify, ran, method)
            saved = files.save_measured(document, path) if path is not None else None
    if outcome.interrupted or late:
        raise files.interrupted(count(len(document.repetitions), "run"), document.status, saved)
    if document.status == "failed":
        raise NothingVerifiedError(document)
    return document


def _predictor(
    plan: OrderPlan, map_: Map | None, capacity: Capacity | None, algorithm: str, size_bytes: int
) -> Predictor | None:
    """Of times where the capacities are known, else of costs. Raises InputError."""
    if capacity is not None:
        check_same_hosts(
            [plain_host(host) for host in plan.hosts],
            [plain_host(host) for host in capacity.hosts],
            what="the plan",
            source="capacity",
        )
        return ByCapacity(plan, capacity, ON_THE_WIRE.get(algorithm, algorithm), size_bytes)
    return None if map_ is None else ByMap(plan, map_, algorithm)


def has_all_rates(map_: Map, capacity: Capacity) -> bool:
    """Whether ``capacity`` can predict what orders of the hosts on the map take."""
    placed = [host.name for host in map_.hosts if host.name not in set(map_.unplaced)]
    try:
        SharedLinks(cost_model("ring"), placed, capacity)
    except InputError:
        return False
    return True


def _few(count: int) -> str:
    what = "one host has one order" if count == 1 else f"{count} hosts have no two orders to tell apart"
    return f"{what}: {LEAST_HOSTS} hosts are needed"


@dataclass(frozen=True)
class _Case:
    """What is compared with what; the orders of those hosts that are up."""

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
        """The file's order, or the given one under the plan's rank 0 (as the plan priced it)."""
        hosts = self.plan.hosts if self.against.hosts is None else self.against.hosts
        found = [host.name for host in hosts if host.name in set(names)]
        if self.against.hosts is not None:
            return found
        first = next(name for name in self.plan.order if name in set(names))
        order = turned(range(len(found)), found.index(first), cost_model(self.plan.algorithm))
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
        proposed = Contender(name="proposed", order=best, predicted_s=self.price(names, best))
        baselines = tuple(Contender(name=n, order=o, predicted_s=self.price(names, o)) for n, o in others)
        return Contenders(
            proposed=proposed,
            baselines=baselines,
            surveyed=self._surveyed(names, best) if self.orders else (),
            predicted_ratio=self._predicted(proposed, baselines),
        )

    def price(self, names: Sequence[str], order: Sequence[int]) -> float | None:
        """By the map; None without one."""
        if self.predictor is None:
            return None
        return float(self.predictor.costs([self._in_plan(names, order)])[0])

    def _predicted(self, proposed: Contender, baselines: Sequence[Contender]) -> float | None:
        costs = [one.predicted_s for one in baselines if one.predicted_s is not None]
        if proposed.predicted_s is not None and costs:
            return statistics.fmean(costs) / proposed.predicted_s if proposed.predicted_s else None
        whole = len(proposed.order) == len(self.plan.order) and self.algorithm == self.plan.algorithm
        if whole and self.against.name == GIVEN and self.against.hosts is None and self.plan.cost_s:
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
                predicted_s=one.cost,
                percentile=one.percentile,
            )
            for one in spread_orders(start, self.predictor.costs, self.orders, seed=self.seed)
        )

    def _in_plan(self, names: Sequence[str], order: Sequence[int]) -> list[int]:
        where = {host.name: i for i, host in enumerate(self.plan.hosts)}
        return [where[names[host]] for host in order]


def build_verify(
    case: _Case,
    parents: Sequence[Map | Capacity | None],
    outcome: VerifyOutcome,
    options: VerifyOptions,
    ran: str,
    method: str = "tcp",
) -> Verify:
    """The document; pure."""
    plan = case.plan
    by_name = {one.host.name: one for one in outcome.hosts}
    hosts = []
    for host in plan.hosts:
        one = by_name.get(host.name)
        fields = plain_host(host).model_dump()
        if one is not None:
            fields |= one.host.model_dump() | {"status": one.status, "reason": one.reason, "agent": one.agent}
        elif host.name in set(plan.left_out):
            fields |= {"status": "failed", "reason": LEFT_OUT}
        hosts.append(ScannedHost.model_validate(fields))
    names = [host.name for host in plan.hosts if host.name in set(plan.order)]
    every = outcome.contenders.all if outcome.contenders is not None else ()
    ratio = outcome.record.ratio()
    trivial = outcome.contenders is not None and not outcome.hosts
    faults = [f"{one.host.name}: {one.reason}" for one in outcome.hosts if one.status != "ok"]
    parts = ["interrupted"] if outcome.interrupted else []
    parts += [outcome.stopped] if outcome.stopped is not None else []
    parts += [text for text in faults[:4] if text not in parts]
    parts += [f"and {len(faults) - 4} more hosts"] if len(faults) > 4 else []
    parts += [SAME_ORDER] if trivial else []
    whole = not (faults or outcome.interrupted or outcome.stopped)
    return Verify(
        status=("ok" if whole else "partial") if ratio is not None or trivial else "failed",
        reason="; ".join(parts) or None,
        seed=options.seed,
        parents=[plan.parent(), *(one.parent() for one in parents if one is not None)],
        hosts=hosts,
        algorithm=case.algorithm,
        ran=ran,
        method=method,
        size_bytes=options.size_bytes,
        parameters={
            "channels": options.channels,
            "time_s": options.contest.time_s,
            "precision": options.contest.precision,
            **({} if outcome.library is None else {"library": outcome.library}),
            **_predicted_by(case, outcome),
        },
        orders=[
            VerifiedOrder(
                name=one.name,
                order=[names[host] for host in one.order],
                predicted_s=one.predicted_s,
                percentile=one.percentile,
            )
            for one in every
        ],
        repetitions=_repetitions(outcome),
        sent_bytes=outcome.sent_bytes,
        proved=outcome.proved,
        comparison=Comparison(
            against=case.against.name,
            ratio=1.0 if trivial else None if ratio is None else ratio.value,
            low=None if ratio is None else ratio.low,
            high=None if ratio is None else ratio.high,
            pairs=0 if ratio is None else ratio.pairs,
            predicted_ratio=None if outcome.contenders is None else outcome.contenders.predicted_ratio,
            verdict="same" if trivial else verdict_of(ratio, options.contest.precision),
        ),
        correlation=_correlation(case, outcome),
        warnings=_warnings(case, outcome, options.size_bytes),
        duration_s=outcome.duration_s,
    )


def _repetitions(outcome: VerifyOutcome) -> list[VerifiedRepetition]:
    compared = [
        VerifiedRepetition(
            order=one.order, seconds=one.seconds, part="warm_up" if one.warm_up else "comparison"
        )
        for one in outcome.record.contest
    ]
    return compared + [
        VerifiedRepetition(order=one.order, seconds=one.seconds, part="orders")
        for one in outcome.record.survey
    ]


def _correlation(case: _Case, outcome: VerifyOutcome) -> RankCorrelation | None:
    if not case.orders or outcome.contenders is None:
        return None
    times: dict[int, list[float]] = {}
    for one in outcome.record.survey:
        times.setdefault(one.order, []).append(one.seconds)
    every = outcome.contenders.all
    predicted = [every[number].predicted_s or 0.0 for number in times]
    found = correlate(predicted, [statistics.median(own) for own in times.values()])
    return RankCorrelation(
        tau_b=found.tau_b, ceiling=found.ceiling, spearman=found.spearman, orders=found.orders
    )


def _predicted_by(case: _Case, outcome: VerifyOutcome) -> dict[str, object]:
    """What the plan's model looked at: ``objective`` of a ring, and the bytes that it priced (null: latency alone)."""
    if outcome.contenders is None or outcome.contenders.predicted_ratio is None:
        return {}
    if isinstance(case.predictor, ByCapacity):
        return {"predicted_by": {"capacity": True, "size_bytes": case.predictor.size_bytes}}
    objective = case.plan.objective if case.algorithm == "ring" else None
    return {"predicted_by": {"objective": objective, "size_bytes": case.plan.size_bytes}}


def _warnings(case: _Case, outcome: VerifyOutcome, size_bytes: int) -> list[str]:
    found = []
    priced = None if isinstance(case.predictor, ByCapacity) else case.plan.size_bytes
    if priced is not None and priced != size_bytes:
        found.append(
            f"buffers of {size_bytes} bytes were run, and predictions are of the plan's {priced} bytes"
        )
    if case.plan.left_out:
        found.append(f"left out by the plan, for they had no reading: {', '.join(case.plan.left_out[:8])}")
    if outcome.contenders is not None and outcome.hosts and case.orders:
        chosen, ran = len(outcome.contenders.surveyed), len({one.order for one in outcome.record.survey})
        why = "there are no more" if chosen else "all orders cost the same by the map"
        if ran < chosen:
            why = "it ended early" if outcome.stopped or outcome.interrupted else "the time was up (--time)"
        if ran < case.orders:
            found.append(f"{ran} of {case.orders} orders were run: {why}")
    return found


def load_baseline(text: str) -> Baseline:
    """``given``, ``random``, or the hosts of a plan or hosts file in their order. Raises InputError."""
    if text in (GIVEN, RANDOM):
        return Baseline(name=text)
    path = Path(text)
    if not path.is_file():
        raise InputError(f"--against {text[:200]!r} is neither {GIVEN} nor {RANDOM} nor a file with an order")
    try:
        with path.open("rb") as stream:
            is_document = stream.read(64).lstrip().startswith(b"{")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if not is_document:
        return Baseline(name=path.name, hosts=tuple(load_hosts(text)))
    other = load_plan(path)
    if not isinstance(other, OrderPlan):
        raise InputError(f"{path}: is a plan of kind {other.kind}, which is no order")
    by_name = {host.name: host for host in other.hosts}
    return Baseline(name=path.name, hosts=tuple(plain_host(by_name[name]) for name in other.order))
