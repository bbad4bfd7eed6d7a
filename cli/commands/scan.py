"""``netprobe scan``: from hosts, or a lab, to a hostfile."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netprobe.cli.commands.export import SlotsOption, UsualFormatOption
from netprobe.cli.commands.scan_options import Grouping, Measured, Ordering, Probing, Task
from netprobe.cli.commands.scan_output import show_chain
from netprobe.cli.options.addresses import Addresses
from netprobe.cli.options.groups import grouped
from netprobe.cli.options.launching import Reach, SelectorOption
from netprobe.cli.options.numerics import load_numerics
from netprobe.cli.options.probing import (
    DryRunOption,
    ResumeOption,
    explicit_fields,
    explicit_words,
    given_on_command_line,
    show_estimate,
)
from netprobe.cli.output import JsonOption, Output, PutAsideOption, QuietOption, SeedOption, VerboseOption
from netprobe.cli.progress import ScanProgress
from netprobe.core.text import meant

if TYPE_CHECKING:
    from netprobe.pipeline.chain import Chain
    from netprobe.pipeline.prepared_chain import ChainRequest, PreparedChain

_OPTIONS_OF = {
    "scan": {},
    "map": {word: f"--{word}" for word in ("groups", "k", "elasticity", "method", "alpha", "like")},
    "plan": {word: f"--{word}" for word in ("algorithm", "objective", "root")},
    "export": {"format_": "--format", "slots": "--slots"},
}
"""Options of each stage that has some of its own, in the order of the stages."""


@grouped
def scan(
    *,
    ctx: typer.Context,
    task: Task,
    reach: Reach,
    addresses: Addresses,
    selector: SelectorOption = None,
    probing: Probing,
    dry_run: DryRunOption = False,
    resume: ResumeOption = False,
    measured: Measured,
    grouping: Grouping,
    ordering: Ordering,
    format_: UsualFormatOption = None,
    slots: SlotsOption = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="At the end compare the order with the original one on the hosts, for a minute at most. A lab with "
            "rates does so unless --no-verify is given.",
        ),
    ] = None,
    seed: SeedOption = 0,
    force: PutAsideOption = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> int:
    """Probe every pair of hosts, map them, order the ranks and write the hostfile."""
    output = Output(json=json, quiet=quiet, verbose=verbose)
    _load(task, output)
    from netprobe.cli.options.launching import hosts_given, hosts_or_selector
    from netprobe.pipeline.chain import ChainOptions
    from netprobe.pipeline.prepared_chain import ChainRequest, prepare_chain
    from netprobe.pipeline.scanning.pace import Pace
    from netprobe.probe.records.options import ScanOptions
    from netprobe.verify.run import VerifyOptions

    task = replace(task, hosts=hosts_or_selector(hosts_given(task.names, task.hosts), selector))
    _check(task, reach, resume=resume, force=force)
    _check_stages(ctx, task.only)
    mapping = grouping.options()
    _check_verify(task, verify)
    options = ChainOptions(
        scan=ScanOptions(**probing.fields(), **reach.fields(), **addresses.fields(), seed=seed),
        measuring=measured.measuring(probing),
        map=mapping,
        **ordering.fields(),
        format_name=format_,
        slots=slots,
        seed=seed,
        verify=VerifyOptions(seed=seed) if verify and task.lab is None else None,
        last=task.only or "verify",  # type: ignore[arg-type]
        via=reach.way,
        resume=resume,
    )
    request = ChainRequest(
        folder=task.out or Path(f"netprobe-{datetime.now():%Y%m%d-%H%M%S}"),
        options=options,
        hosts=task.hosts,
        launcher=reach.launcher() if task.lab is None else None,
        via=reach.via,
        lab=task.lab,
        verify=verify,
        pace=Pace(rate=probing.rate, gentle=probing.gentle, explicit=explicit_fields(ctx)),
        explicit_measuring=explicit_words(ctx, options.measuring.words),
        inputs=(*([] if grouping.like is None else [grouping.like]), *reach.inputs()),
        force=force,
    )
    prepared = prepare_chain(request, on_note=output.note)
    for note in prepared.notes:
        output.note(note)
    if dry_run:
        show_estimate(prepared.estimate(), output)
        return 0
    with ScanProgress(output) as progress:
        chain = _run(prepared, request, progress)
    show_chain(chain, output, progress.warned)
    return 0 if chain.is_whole else 3


def _run(prepared: PreparedChain, request: ChainRequest, progress: ScanProgress) -> Chain:
    """The chain; where nothing was measured, what to type when the cause is mended."""
    from netprobe.core.errors import NothingMeasuredError

    try:
        return prepared.run(on_event=progress.on_event, on_stage=progress.on_stage)
    except NothingMeasuredError as error:
        if request.lab is not None:
            raise
        raise NothingMeasuredError(
            f"{error}; then: the same command again, or with --resume --out {shlex.quote(str(request.folder))}",
            nobody_up=error.nobody_up,
        ) from error


def _load(task: Task, output: Output) -> None:
    """Enter a namespace of our own for a lab without root, then load numpy and scipy."""
    from netprobe.cli import rootless

    if task.lab is not None and rootless.is_needed():
        rootless.enter_own()  # first: nothing that starts threads is loaded yet
        output.note(rootless.NOTE)
    load_numerics()


def _check(task: Task, reach: Reach, *, resume: bool, force: bool) -> None:
    """Refuse options that contradict each other. Raises InputError."""
    from netprobe.core.errors import InputError
    from netprobe.pipeline.scanning.hosts import KNOW_THEIR_HOSTS

    knows_hosts = reach.via in KNOW_THEIR_HOSTS or resume
    if (task.hosts is None) == (task.lab is None) and (task.lab is not None or not knows_hosts):
        raise InputError("give either --hosts FILE or --lab SPEC (hosts may also be given without --hosts)")
    if resume and (task.lab is not None or task.out is None or force):
        raise InputError(
            "--resume goes with --out DIR (of the scan that ended early), not with --lab or --force"
        )
    given = reach.given()
    if task.lab is not None and given:
        raise InputError(f"{' and '.join(given)} cannot go with --lab: a lab has its own way in")
    stages = ("scan", "map", "plan")
    if task.only is not None and task.only not in stages:
        raise InputError(f"--only {task.only!r} is not one of {', '.join(stages)}{meant(task.only, stages)}")


def _check_stages(ctx: typer.Context, only: str | None) -> None:
    """Refuse options of stages that ``--only`` stops before. Raises InputError."""
    from netprobe.core.errors import InputError

    stages = list(_OPTIONS_OF)
    for stage in stages[stages.index(only) + 1 :] if only in stages else ():
        given = [name for word, name in _OPTIONS_OF[stage].items() if given_on_command_line(ctx, word)]
        if given:
            verb, them = ("is", "it") if len(given) == 1 else ("are", "them")
            raise InputError(
                f"{' and '.join(given)} {verb} of the {stage}, and --only {only} stops before it: leave {them} out, or "
                "--only"
            )


def _check_verify(task: Task, verify: bool | None) -> None:
    """Refuse ``--verify`` where the chain stops before it. Raises InputError."""
    from netprobe.core.errors import InputError

    if task.only is not None and verify:
        raise InputError(f"--verify is the last stage, and --only {task.only} stops before it: leave one out")
