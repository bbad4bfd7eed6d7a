"""plan -> verify: the plan's order against another one, run on the hosts themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import plain_host
from netprobe.core.system.interrupts import signals_held
from netprobe.pipeline import files
from netprobe.pipeline.planning.predicting import predictor
from netprobe.pipeline.verifying.verify_case import RANDOM, Baseline, Case
from netprobe.pipeline.verifying.verify_document import build_verify
from netprobe.plan import prove_against_map
from netprobe.plan.costs import cost_model
from netprobe.plan.schedule.actions import ON_THE_WIRE
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.options import ScanOptions
from netprobe.report.units import count
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
        prove_against_map(plan, map_, source="plan")
    case = Case(
        plan, against, predictor(plan, map_, capacity, name, verify.size_bytes), name, orders, verify.seed
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


def _few(count: int) -> str:
    what = "one host has one order" if count == 1 else f"{count} hosts have no two orders to tell apart"
    return f"{what}: {LEAST_HOSTS} hosts are needed"
