"""``netprobe plan``: map.json -> plan.json."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from netprobe.cli.commands.plan_auto import choose
from netprobe.cli.commands.plan_ds_sync import ds_sync
from netprobe.cli.commands.plan_two_level import two_level
from netprobe.cli.help import Command
from netprobe.cli.lazy import commands, or_default
from netprobe.cli.options.algorithms import ALGORITHMS_LISTED
from netprobe.cli.options.documents import MapArgument, capacity_option, document_at, load_capacity
from netprobe.cli.output import (
    ForceOption,
    JsonOption,
    Output,
    QuietOption,
    SeedOption,
    VerboseOption,
    next_lines,
)
from netprobe.cli.progress import working
from netprobe.core.text import meant

app = commands(
    "Make a communication plan from a map. Without a command it is auto: netprobe plan MAP.",
    or_default("auto"),
)

AlgorithmOption = Annotated[
    str,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help=f"The algorithm whose cost counts: {ALGORITHMS_LISTED} (netprobe docs planning).",
    ),
]
ObjectiveOption = Annotated[
    str,
    typer.Option("--objective", help="sum of the ring's one-way times, or bottleneck: its slowest hop."),
]
RootOption = Annotated[
    str | None, typer.Option("--root", help="Host of rank 0 (the first of the original order otherwise).")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write (plan.json in the map's folder; beside another kind of plan plan-order.json).",
    ),
]
HostsOption = Annotated[
    str | None,
    typer.Option("--hosts", help="Hosts in their original order, with slots (the map's own otherwise)."),
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        "--size", metavar="SIZE", help="Price a buffer of 100MB, say, by goodput as well as latency."
    ),
]
ScanOption = Annotated[
    Path | None,
    typer.Option(
        "--scan",
        metavar="SCAN",
        help="The map's scan (that in its folder), to judge orders by its readings.",
        callback=document_at("scan"),
    ),
]
CapacityOption = Annotated[
    Path | None,
    capacity_option("the time of a large buffer, by which the original order is kept where it is faster"),
]
HeldOutOption = Annotated[
    bool | None,
    typer.Option(
        "--held-out/--no-held-out",
        help="Judge orders on readings that were not used to find them (up to 256 hosts otherwise).",
    ),
]
TimeOption = Annotated[
    float | None,
    typer.Option(
        "--time", metavar="SECONDS", help="Search for this long; the result then depends on the machine."
    ),
]
ExactOption = Annotated[
    float | None,
    typer.Option(
        "--exact", metavar="SECONDS", help="Polish the order of up to 32 hosts with OR-tools' CP-SAT."
    ),
]
MaximizeOption = Annotated[
    bool, typer.Option("--maximize", help="Also find the most expensive order, for experiments.")
]


@app.callback()
def _group() -> None:
    """Make a communication plan from a map. Without a command it is auto: netprobe plan MAP."""


@app.command("order", cls=Command)
def order(
    map_file: MapArgument,
    out: OutOption = None,
    hosts: HostsOption = None,
    algorithm: AlgorithmOption = "ring",
    size: SizeOption = None,
    objective: ObjectiveOption = "sum",
    root: RootOption = None,
    scan: ScanOption = None,
    capacity: CapacityOption = None,
    held_out: HeldOutOption = None,
    time: TimeOption = None,
    exact: ExactOption = None,
    maximize: MaximizeOption = False,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> int:
    """Order the ranks for an algorithm of a collective."""
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.formats import input_files, load_hosts
    from netprobe.pipeline import files
    from netprobe.pipeline.planning.held_out import readings_in_folder
    from netprobe.pipeline.planning.plan_order import PlanRequest, plan_order
    from netprobe.plan.costs import cost_model
    from netprobe.probe.methods.goodput_options import parse_size

    path = out or files.plan_path(map_file.parent, "order", "order")
    cost_model(algorithm)
    checked = check_objective(objective)
    size_bytes = None if size is None else parse_size(size).bytes
    document = load_document(Map, map_file)
    original = load_hosts(hosts) if hosts is not None else None
    measured, rates = load_capacity(capacity, document, map_file.parent)
    inputs = [map_file, *([] if scan is None else [scan]), *rates]
    inputs += input_files(hosts) if hosts is not None else []
    files.prepare_file(path, kind="plan", force=force, inputs=inputs)
    output = Output(json=json, quiet=quiet, verbose=verbose)
    with working(output, "ordering the ranks"):
        result = plan_order(
            document,
            PlanRequest(
                hosts=original,
                algorithm=algorithm,
                size_bytes=size_bytes,
                objective=checked,
                root=root,
                seed=seed,
                time_s=time,
                maximize=maximize,
                exact_s=exact,
                held_out=held_out,
            ),
            capacity=measured,
            readings=readings_in_folder(
                map_file, document, scan, size_bytes=size_bytes, held_out=held_out, seed=seed
            ),
        )
    files.save(result, path)

    if not (json or quiet):
        from netprobe.report import terminal
        from netprobe.report.headline import headline

        verify = f"netprobe verify {shlex.quote(str(path))}"
        output.say(
            terminal.order_text(result, detail=output.verbose),
            f"wrote {path}",
            *next_lines(_export_command(path), verify),
        )
        output.say(f"{headline(document, result)}.")
    output.document(path)
    return 0


app.command("auto", cls=Command)(choose)
app.command("2lha", cls=Command)(two_level)
app.command("ds-sync", cls=Command)(ds_sync)


def _export_command(plan: Path) -> str:
    """The command that writes the plan's hostfile: in its folder, under a name that is not taken yet."""
    import itertools
    import os

    from netprobe.formats import format_named

    words = ["netprobe", "export", "hostfile", str(plan)]
    name = usual = format_named("openmpi").file
    for number in itertools.count(1):
        if not os.path.lexists(plan.parent / name):
            break
        name = f"{usual}.{plan.stem}{'' if number == 1 else f'-{number}'}"
    if name != usual:
        words += ["--out", str(plan.parent / name)]
    return shlex.join(words)


def check_objective(objective: str) -> Any:
    """``sum`` or ``bottleneck``; InputError otherwise."""
    from netprobe.core.errors import InputError

    known = ("sum", "bottleneck")
    if objective not in known:
        raise InputError(f"--objective {objective!r} is neither sum nor bottleneck{meant(objective, known)}")
    return objective


def plan_summary(result: Any) -> dict[str, Any]:
    """The fields of an order in ``--json``."""
    keys = {
        "kind",
        "collective",
        "algorithm",
        "size_bytes",
        "order",
        "kept_given",
        "cost_s",
        "cost_given_s",
        "lower_bound_s",
        "gap",
        "cost_random",
        "cost_worst_s",
        "order_worst",
        "held_out",
        "advice",
        "crossings",
        "crossings_given",
        "left_out",
    }
    summary: dict[str, Any] = result.model_dump(include=keys)
    return summary
