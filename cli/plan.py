"""``netprobe plan``: map.json -> plan.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption

app = typer.Typer(
    help="Make a communication plan from a map.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ObjectiveOption = Annotated[
    str,
    typer.Option("--objective", help="sum of the ring's one-way times, or bottleneck: its slowest hop."),
]
RootOption = Annotated[
    str | None, typer.Option("--root", help="Host of rank 0 (the first given host otherwise).")
]


@app.callback()
def _group() -> None:
    """Make a communication plan from a map."""


@app.command("order")
def order(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map.json.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (plan.json beside the map).")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", help="Hosts in their given order, with slots (the map's own otherwise)."),
    ] = None,
    objective: ObjectiveOption = "sum",
    root: RootOption = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Order the ranks for a ring."""
    from netprobe.core.document import load_document
    from netprobe.core.map import Map
    from netprobe.formats import input_files, load_hosts
    from netprobe.pipeline import files
    from netprobe.pipeline.planning import plan_order

    path = out or map_file.parent / files.PLAN
    document = load_document(Map, map_file)
    given = load_hosts(hosts) if hosts is not None else None
    inputs = [map_file, *(input_files(hosts) if hosts is not None else [])]
    files.prepare_file(path, kind="plan", force=force, inputs=inputs)
    result = plan_order(document, hosts=given, objective=check_objective(objective), root=root, seed=seed)
    files.save(result, path)

    output = Output(json=json, quiet=quiet)
    if not (json or quiet):
        from netprobe.report import terminal

        output.say(terminal.order_text(result), f"wrote {path}", f"next: netprobe export hostfile {path}")
    output.result(plan_summary(result) | {"file": str(path)})
    return 0


def check_objective(objective: str) -> Any:
    """``sum`` or ``bottleneck``; InputError otherwise."""
    from netprobe.core.errors import InputError

    if objective not in ("sum", "bottleneck"):
        raise InputError(f"--objective {objective!r} is neither sum nor bottleneck")
    return objective


def plan_summary(result: Any) -> dict[str, Any]:
    """What ``--json`` says of an order."""
    keys = {
        "kind",
        "size_bytes",
        "order",
        "cost_s",
        "cost_given_s",
        "crossings",
        "crossings_given",
        "left_out",
    }
    summary: dict[str, Any] = result.model_dump(include=keys)
    return summary
