"""plan -> verify: the plan's order against another one, run on the hosts themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import Host, plain_host
from netprobe.core.system.interrupts import signals_held
from netprobe.core.units import count
from netprobe.pipeline import files
from netprobe.pipeline.planning.predicting import predictor
from netprobe.pipeline.verifying.verify_case import RANDOM, Baseline, Case
from netprobe.pipeline.verifying.verify_document import build_verify
from netprobe.plan import prove_against_map
from netprobe.plan.costs import CostModel, cost_model
from netprobe.plan.schedule.builders import ON_THE_WIRE
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.verify.libraries.library import Library
from netprobe.verify.libraries.run_library import algorithm_of, run_library
from netprobe.verify.run import LEAST_HOSTS, Contenders, VerifyOptions, VerifyOutcome, run_verify

LIBRARY_START_S = 240.0
"""torch alone takes 20 s where 16 processes import it on two cores."""


class NothingVerifiedError(NothingMeasuredError):
    """No pair of repetitions was made; ``document`` says of each host why."""

    def __init__(self, document: Verify) -> None:
        self.document = document
        super().__init__(
            f"nothing was verified: {document.reason or 'see the hosts'}",
            nobody_up=all(host.status != "ok" for host in document.hosts),
        )


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """What the plan's order is compared with, and what runs it.

    ``orders`` more, spread over the range of predicted costs, tell whether prediction and measurement agree.
    ``algorithm`` (default: the plan's) is what runs; ``library`` runs it in place of the agents. ``choose_addresses``
    takes, of the addresses that the hosts have, those that the scan options choose, not those of the plan.
    """

    against: Baseline = field(default_factory=Baseline)
    algorithm: str | None = None
    orders: int = 0
    library: Library | None = None
    choose_addresses: bool = False
    options: VerifyOptions = field(default_factory=VerifyOptions)


DEFAULT = VerifyRequest()


def verify_order(
    plan: OrderPlan,
    request: VerifyRequest = DEFAULT,
    *,
    launcher: Launcher,
    map_: Map | None = None,
    capacity: Capacity | None = None,
    path: Path | None = None,
    options: ScanOptions | None = None,
    on_event: OnEvent = ignore,
) -> Verify:
    """Run the plan's order against another one, and write the document to ``path``.

    ``map_`` predicts costs; ``capacity`` predicts times, in place of the map where both are given. ``options`` are
    those of the agents.

    Raises InputError for what does not belong together or for orders that nothing predicts, NothingVerifiedError when
    no pair of repetitions was made, and InterruptedScanError after Ctrl-C. What was measured is written in each case,
    except that a document without readings never replaces another.
    """
    trial = _Trial.of(plan, request, map_, capacity)
    if len(trial.hosts) < LEAST_HOSTS:
        raise NothingVerifiedError(trial.document(VerifyOutcome(stopped=_few(len(trial.hosts)))))
    late: list[int] = []
    if trial.is_same_order:
        every = range(len(trial.hosts))
        outcome = VerifyOutcome(contenders=trial.contenders(every, request.options.size_bytes))
        document = trial.document(outcome)
        saved = files.save_measured(document, path) if path is not None else None
    else:
        with signals_held() as late:
            outcome = trial.run(launcher, options or ScanOptions(), on_event)
            document = trial.document(outcome)
            saved = files.save_measured(document, path) if path is not None else None
    if outcome.interrupted or late:
        raise files.interrupted(count(len(document.repetitions), "run"), document.status, saved)
    if document.status == "failed":
        raise NothingVerifiedError(document)
    return document


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """A checked request on the hosts that have a rank. ``algorithm`` is the library's own name where one runs it."""

    request: VerifyRequest
    case: Case
    map_: Map | None
    capacity: Capacity | None
    hosts: Sequence[Host]
    model: CostModel
    algorithm: str

    @classmethod
    def of(
        cls, plan: OrderPlan, request: VerifyRequest, map_: Map | None, capacity: Capacity | None
    ) -> _Trial:
        """Raises InputError for what does not belong together."""
        name = request.algorithm or plan.algorithm
        model = cost_model(ON_THE_WIRE.get(name, name))
        if request.orders and map_ is None and capacity is None:
            raise InputError(
                "orders at percentiles of the predicted cost need what predicts it: give --map or --capacity"
            )
        if map_ is not None:
            prove_against_map(plan, map_, source="plan")
        predicted = predictor(
            plan, map_, capacity, name, request.options.size_bytes, request.options.channels
        )
        case = Case(plan, request.against, predicted, name, request.orders, request.options.seed)
        hosts = [plain_host(host) for host in plan.hosts if host.name in set(plan.order)]
        if request.choose_addresses:
            hosts = [host.model_copy(update={"address": None}) for host in hosts]
        library = request.library
        algorithm = model.name if library is None else algorithm_of(library, model.name)
        if library is not None and request.choose_addresses:
            raise InputError(
                "--interface, --subnet and their like are for netprobe's own agents, not with --with"
            )
        return cls(
            request=request,
            case=case,
            map_=map_,
            capacity=capacity,
            hosts=hosts,
            model=model,
            algorithm=algorithm,
        )

    @property
    def is_same_order(self) -> bool:
        """Whether the baseline is the plan's order, and nothing else is to run."""
        against, names = self.request.against, [host.name for host in self.hosts]
        if self.request.orders or against.name == RANDOM:
            return False
        return self.case.baseline(names) == self.case.plan.order

    def contenders(self, up: Sequence[int], size_bytes: int) -> Contenders:
        """The orders of those of ``hosts`` that are up, with what is predicted of such a buffer."""
        return self.case_of(size_bytes).contenders([host.name for host in self.hosts], up)

    def case_of(self, size_bytes: int) -> Case:
        """The case with predictions of a buffer of that size, where it is not that of the request."""
        verify, case = self.request.options, self.case
        if size_bytes == verify.size_bytes:
            return case
        predicted = predictor(
            case.plan, self.map_, self.capacity, case.algorithm, size_bytes, verify.channels
        )
        return replace(case, predictor=predicted)

    def run(self, launcher: Launcher, options: ScanOptions, on_event: OnEvent) -> VerifyOutcome:
        """By the library, else by netprobe's agents."""
        library, verify = self.request.library, self.request.options
        if library is None:
            return run_verify(
                self.hosts, self.model.name, self.contenders, launcher, options, verify, on_event=on_event
            )
        wait_s = max(options.start_timeout_s, LIBRARY_START_S)
        return run_library(
            self.hosts,
            library,
            self.algorithm,
            self.contenders,
            verify,
            start_timeout_s=wait_s,
            on_event=on_event,
        )

    def document(self, outcome: VerifyOutcome) -> Verify:
        """What came of it."""
        library = self.request.library
        method = "tcp" if library is None else library.name
        case = self.case_of(outcome.size_bytes or self.request.options.size_bytes)
        parents = [self.map_, self.capacity]
        return build_verify(case, parents, outcome, self.request.options, self.algorithm, method)


def _few(count: int) -> str:
    what = "one host has one order" if count == 1 else f"{count} hosts have no two orders to tell apart"
    return f"{what}: {LEAST_HOSTS} hosts are needed"
