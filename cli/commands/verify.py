"""``netprobe verify``: plan.json -> verify.json."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.options.addresses import Addresses
from netprobe.cli.options.algorithms import ALGORITHMS_LISTED
from netprobe.cli.options.documents import MapOption, PlanArgument, capacity_option, load_capacity
from netprobe.cli.options.groups import grouped
from netprobe.cli.options.launching import Reach, hinting
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption

if TYPE_CHECKING:
    from netprobe.core.documents.capacity import Capacity
    from netprobe.core.documents.map import Map
    from netprobe.core.documents.plan import OrderPlan
    from netprobe.core.documents.schedule_plan import SchedulePlan
    from netprobe.core.documents.verify import Verify
    from netprobe.probe.launchers.launch import Launcher
    from netprobe.verify.libraries.library import Library
    from netprobe.verify.run import VerifyOptions

CapacityOption = Annotated[
    Path | None,
    capacity_option("predicts times, shared uplinks included"),
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        "--size", help="Buffer size on each host (what the plan priced, or 32MB; less where --time is short)."
    ),
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help=f"What to run (the plan's; a ring runs in chunks): {ALGORITHMS_LISTED}; with --with the library's own.",
    ),
]
ChannelsOption = Annotated[
    int | None,
    typer.Option(
        "--channels", help="TCP connections per pair of hosts, 1 to 64 (1; a schedule has its own)."
    ),
]
TimeOption = Annotated[
    str, typer.Option("--time", help="Time for the comparison; the same again for --orders.")
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="Stop when the speed-up is known to this precision.")
]
AgainstOption = Annotated[
    str,
    typer.Option(
        "--against",
        metavar="ORDER",
        help="given (the original order), random, a file (hosts in order, or a plan); for a schedule an algorithm.",
    ),
]
OrdersOption = Annotated[
    int,
    typer.Option(
        "--orders",
        metavar="N",
        help="Run N more orders, from lowest to highest cost, to check the prediction.",
    ),
]
WithOption = Annotated[
    str | None,
    typer.Option(
        "--with",
        metavar="LIBRARY",
        help="Run it by mpi, gloo or nccl-tests instead of the agents; with a schedule, its own all-reduce as well.",
    ),
]
ProgramOption = Annotated[
    str | None, typer.Option("--program", help="Path of all_reduce_perf on the hosts, for --with nccl-tests.")
]
RequireAllOption = Annotated[
    bool, typer.Option("--require-all", help="Refuse to run without one of the plan's hosts.")
]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is run, and how often."""

    size: SizeOption = None
    algorithm: AlgorithmOption = None
    channels: ChannelsOption = None
    time: TimeOption = "60s"
    precision: PrecisionOption = "5%"
    against: AgainstOption = "given"
    orders: OrdersOption = 0
    with_: WithOption = None
    program: ProgramOption = None
    require_all: RequireAllOption = False

    @property
    def by_mpirun(self) -> bool:
        """Whether mpirun starts it, which reaches the hosts by itself."""
        return self.with_ in ("mpi", "nccl-tests")

    def launcher(self, reach: Reach) -> Launcher:
        """Raises InputError for options that do not go with each other."""
        return (replace(reach, mca=None) if self.by_mpirun and reach.way != "mpi" else reach).launcher()

    def options(self, plan: OrderPlan | SchedulePlan, seed: int) -> VerifyOptions:
        """Of what is run, at the size that the plan priced unless another is given. Raises InputError."""
        from netprobe.core.errors import InputError
        from netprobe.probe.methods.goodput_options import parse_size
        from netprobe.probe.rounds.budget import parse_budget
        from netprobe.verify.comparison import ComparisonOptions
        from netprobe.verify.run import DEFAULT_BYTES, VerifyOptions

        if self.orders < 0:
            raise InputError(f"--orders {self.orders}: a number of at least 0 is needed")
        budget = parse_budget(None, self.time)
        size = None if self.size is None else parse_size(self.size).bytes
        return VerifyOptions(
            size_bytes=size if size is not None else plan.size_bytes or DEFAULT_BYTES,
            fits_time=size is None and (self.with_ is None or plan.kind == "schedule"),
            channels=self.channels if self.channels is not None else getattr(plan, "channels", 1),
            comparison=ComparisonOptions(
                time_s=(budget.seconds if budget else None) or 60.0,
                precision=share(self.precision, "--precision"),
            ),
            require_all=self.require_all,
            seed=seed,
        )

    def check_schedule(self) -> None:
        """Refuse what only rank orders have. Raises InputError."""
        from netprobe.core.errors import InputError

        given = [
            name
            for name, is_given in (
                ("--algorithm", self.algorithm is not None),
                ("--orders", bool(self.orders)),
                ("--channels", self.channels is not None),
                ("--against random", self.against == "random"),
            )
            if is_given
        ]
        if given:
            raise InputError(f"{given[0]} is for rank orders, and this plan is a schedule: leave it out")

    def library(self, launcher: Launcher, reach: Reach) -> Library | None:
        """The library of ``--with``. Raises InputError for an option that does not go with it."""
        from netprobe.pipeline.verifying.libraries import chosen_library

        return chosen_library(
            self.with_,
            launcher=launcher,
            mca=reach.mca or [],
            python=reach.python,
            setup=reach.setup,
            program=self.program,
        )


@grouped
def verify(
    *,
    plan_file: PlanArgument,
    map_: MapOption = None,
    capacity: CapacityOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (verify.json in the plan's folder).")
    ] = None,
    reach: Reach,
    addresses: Addresses,
    run: Run,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run the plan's order against another one on the hosts, and say which is faster."""
    from netprobe.cli.progress import ScanProgress
    from netprobe.core.documents.plan import OrderPlan
    from netprobe.formats import input_files
    from netprobe.pipeline import files
    from netprobe.pipeline.verifying.verify_case import load_baseline
    from netprobe.pipeline.verifying.verify_order import VerifyRequest, verify_order
    from netprobe.probe.records.options import ScanOptions

    path = out or plan_file.parent / files.VERIFY
    launcher = run.launcher(reach)
    options = ScanOptions(**reach.fields(), **addresses.fields())
    plan = load_runnable_plan(plan_file)
    verify_options = run.options(plan, seed)
    measured, rates = load_capacity(capacity, plan, plan_file.parent)
    mapped = _map_of(plan, plan_file, map_, search=measured is not None)
    output = Output(json=json, quiet=quiet)
    if not isinstance(plan, OrderPlan):
        run.check_schedule()
        library = run.library(launcher, reach)
        inputs = [plan_file, *([] if map_ is None else [map_]), *rates, *reach.inputs()]
        inputs += [Path(run.against)] if Path(run.against).is_file() else []
        files.prepare_file(path, kind="verify", force=force, inputs=inputs)
        with ScanProgress(output) as progress, hinting(reach.via is None):
            shared = {"path": path, "options": options, "verify": verify_options}
            known = (measured, mapped)
            against = (run.against, library)
            result = _run_schedule(plan, against, launcher, known, on_event=progress.on_event, **shared)
        return _shown(result, path, output)
    library = run.library(launcher, reach)
    baseline = load_baseline(run.against)
    if not run.by_mpirun:
        launcher.check(plan.hosts)
    inputs = [plan_file, *([] if map_ is None else [map_]), *rates, *reach.inputs()]
    inputs += input_files(run.against) if baseline.hosts is not None else []
    files.prepare_file(path, kind="verify", force=force, inputs=inputs)
    request = VerifyRequest(
        against=baseline,
        algorithm=run.algorithm,
        orders=run.orders,
        library=library,
        choose_addresses=addresses.choose,
        options=verify_options,
    )
    with ScanProgress(output) as progress, hinting(reach.via is None and not run.by_mpirun):
        result = verify_order(
            plan,
            request,
            launcher=launcher,
            map_=mapped,
            capacity=measured,
            path=path,
            options=options,
            on_event=progress.on_event,
        )
    return _shown(result, path, output)


def _map_of(
    plan: OrderPlan | SchedulePlan, plan_file: Path, map_: Path | None, *, search: bool
) -> Map | None:
    """The map that is given, else with ``search`` the plan's own from the same folder. Raises DocumentError."""
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.pipeline.planning.predicting import map_next_to

    if map_ is not None:
        return load_document(Map, map_)
    return map_next_to(plan, plan_file.parent) if search else None


def _run_schedule(
    plan: SchedulePlan,
    against: tuple[str, Library | None],
    launcher: Launcher,
    known: tuple[Capacity | None, Map | None],
    **how: Any,
) -> Verify:
    from netprobe.pipeline.verifying.verify_schedule import Against, Measured, verify_schedule

    launcher.check(plan.hosts)
    measured = Measured(capacity=known[0], map_=known[1])
    chosen = Against(name=None if against[0] == "given" else against[0], library=against[1])
    return verify_schedule(plan, chosen, launcher=launcher, measured=measured, **how)


def _shown(result: Verify, path: Path, output: Output) -> int:
    show_verify(result, output)
    output.say(f"wrote {path}")
    if result.repetitions:
        from netprobe.report.headline import headline

        output.say(f"{headline(None, None, result)}.")
    output.result({"file": str(path)} | verify_summary(result))
    return 0 if result.status == "ok" else 3


def load_runnable_plan(path: Path) -> OrderPlan | SchedulePlan:
    """Raises InputError for a plan of another kind."""
    from netprobe.core.documents.plan import OrderPlan
    from netprobe.core.documents.schedule_plan import SchedulePlan
    from netprobe.core.errors import InputError
    from netprobe.plan import load_plan

    plan = load_plan(path)
    if not isinstance(plan, (OrderPlan, SchedulePlan)):
        raise InputError(f"{path}: is a plan of kind {plan.kind}: only rank orders and schedules can be run")
    return plan


def share(text: str, option: str) -> float:
    """``5%`` -> 0.05. Raises InputError."""
    from netprobe.core.errors import InputError

    number = text.removesuffix("%")
    if (
        text.endswith("%")
        and len(number) <= 12
        and number.replace(".", "", 1).isdecimal()
        and number.isascii()
    ):
        return float(number) / 100
    raise InputError(f"{option} {text[:60]!r}: a share such as 5% is needed")


def show_verify(result: Verify, output: Output) -> None:
    """For people."""
    if output.json or output.quiet:
        return
    from netprobe.report.verify import verify_parts

    output.say(*verify_parts(result))


def verify_summary(result: Verify) -> dict[str, Any]:
    """The fields of it in ``--json``."""
    return result.model_dump(
        mode="json",
        include={
            "status", "reason", "algorithm", "ran", "method", "size_bytes", "comparison", "correlation", "proved",
            "sent_bytes", "duration_s", "warnings",
        },
    )  # fmt: skip
