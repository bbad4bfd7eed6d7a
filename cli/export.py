"""``netprobe export``: plan.json -> a launcher's own file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption

app = typer.Typer(
    help="Write a plan as a launcher's own file.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

FormatOption = Annotated[str, typer.Option("--format", "-f", help="openmpi, mpich, deepspeed, or plain.")]
SlotsOption = Annotated[
    int | None, typer.Option("--slots", min=1, help="Slots of each host (the hosts file's otherwise, or 1).")
]


@app.callback()
def _group() -> None:
    """Write a plan as a launcher's own file."""


@app.command("hostfile")
def hostfile(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json of kind order.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (hostfile beside the plan).")
    ] = None,
    format_: FormatOption = "openmpi",
    slots: SlotsOption = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", help="Hosts whose slots and launcher names are to be used."),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write the hosts in rank order as a hostfile."""
    from netprobe.formats import input_files, load_hosts
    from netprobe.pipeline import files
    from netprobe.pipeline.exporting import export_hostfile
    from netprobe.plan import load_plan

    path = out or plan.parent / files.HOSTFILE
    document = load_plan(plan)
    given = load_hosts(hosts) if hosts is not None else None
    exported = export_hostfile(document, format_name=format_, slots=slots, hosts=given, path=path)
    inputs = [plan, *(input_files(hosts) if hosts is not None else [])]
    files.prepare_file(path, kind="hostfile", force=force, inputs=inputs)
    files.save_text(exported.text, path)

    output = Output(json=json, quiet=quiet)
    output.say(f"wrote {path}", *([f"next: {exported.command}"] if exported.command else []))
    output.result({"file": str(path), "format": format_, "command": exported.command})
    return 0
