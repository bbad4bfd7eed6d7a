"""``netprobe export``: plan.json -> a launcher's own file or another program's schedule, map.json -> a scheduler's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netprobe.cli.help import Command
from netprobe.cli.lazy import commands, or_default
from netprobe.cli.options.documents import MapArgument, PlanArgument
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption

if TYPE_CHECKING:
    from netprobe.core.documents.plan import Plan
    from netprobe.pipeline.exporting import Exported

_ONLY = {
    "topology": ("slurm-conf", "slurm-yaml", "slurm-block", "topograph"),
    "schedule": ("msccl", "svg"),
}
"""Formats that one of the commands alone writes."""


def _by_format(args: Sequence[str]) -> str:
    """The command that writes the format in the arguments; ``hostfile`` where that is open."""
    words = [word.rpartition("=")[2] for word in args]
    return next((name for name, formats in _ONLY.items() if set(formats) & set(words)), "hostfile")


app = commands(
    "Write a plan or a map as a launcher's or a scheduler's own file. Without a command it is the hostfile.",
    or_default("hostfile", _by_format),
)

_FORMATS = (
    "openmpi, rankfile, mpich, deepspeed, horovod, slurm-hostfile, torchrun, json, ray, dlrover, "
    "kubernetes, or plain"
)
FormatOption = Annotated[str, typer.Option("--format", "-f", help=f"{_FORMATS}.")]
UsualFormatOption = Annotated[
    str | None,
    typer.Option("--format", "-f", help=f"{_FORMATS} (openmpi; slurm-hostfile with --via slurm)."),
]
TopologyFormatOption = Annotated[
    str,
    typer.Option(
        "--format", "-f", help="slurm-conf, slurm-yaml, slurm-block, kubernetes, topograph, or dlrover."
    ),
]
ScheduleFormatOption = Annotated[
    str, typer.Option("--format", "-f", help="msccl (XML for GPUs), json (action lists), or svg (a drawing).")
]
RequireAllOption = Annotated[
    bool, typer.Option("--require-all", help="Refuse where a host is left out, rather than warn.")
]
SlotsOption = Annotated[
    int | None, typer.Option("--slots", min=1, help="Slots of each host (the hosts file's otherwise, or 1).")
]


@app.callback()
def _group() -> None:
    """Write a plan or a map as a launcher's or a scheduler's own file. Without a command it is the hostfile."""


@app.command("hostfile", cls=Command)
def hostfile(
    plan: PlanArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (its usual name in the plan's folder).")
    ] = None,
    format_: FormatOption = "openmpi",
    slots: SlotsOption = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", help="Hosts whose slots and launcher names are to be used."),
    ] = None,
    by_node: Annotated[
        bool,
        typer.Option("--by-node", help="Deal ranks out to hosts in turn (neighbours on a host otherwise)."),
    ] = False,
    require_all: RequireAllOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write the hosts in rank order as a hostfile."""
    from netprobe.formats import format_named, input_files, load_hosts, writer_named
    from netprobe.formats.rank_output.rank_program import RANK_LAUNCHERS
    from netprobe.pipeline.exporting import export_hostfile
    from netprobe.plan import load_plan

    writer_named(format_)
    path = out or plan.parent / format_named(format_).file
    document = load_plan(plan)
    given = load_hosts(hosts) if hosts is not None else None
    exported = export_hostfile(
        document,
        format_name=format_,
        slots=slots,
        hosts=given,
        path=path,
        by_node=by_node,
        require_all=require_all,
    )
    inputs = [plan, *(input_files(hosts) if hosts is not None else [])]
    output = Output(json=json, quiet=quiet)
    _note_edits(document, plan, output)
    _write(exported, path, inputs, format_, "hostfile", force, output)
    launcher = next((name for name, entry in RANK_LAUNCHERS.items() if entry.format == format_), None)
    if launcher is not None:
        words = ["netprobe", "check-order", str(plan), "--launcher", launcher]
        words += ["--slots", str(slots)] if slots is not None else []
        words += ["--hosts", hosts] if hosts is not None else []
        words += ["--file", str(out)] if out is not None else []
        words += ["--by-node"] if by_node else []
        output.note(f"then, to see where the ranks run: {shlex.join(words)}")
    return 0


@app.command("topology", cls=Command)
def topology(
    map_file: MapArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (its usual name in the map's folder).")
    ] = None,
    format_: TopologyFormatOption = "slurm-conf",
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="Hosts whose launcher names are to be used.")
    ] = None,
    require_all: RequireAllOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write the groups of a map as a scheduler's topology."""
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.formats import input_files, load_hosts, topology_format_named
    from netprobe.pipeline.exporting import export_topology

    path = out or map_file.parent / topology_format_named(format_).file
    document = load_document(Map, map_file)
    given = load_hosts(hosts) if hosts is not None else None
    exported = export_topology(document, format_name=format_, hosts=given, require_all=require_all)
    inputs = [map_file, *(input_files(hosts) if hosts is not None else [])]
    _write(exported, path, inputs, format_, "topology", force, Output(json=json, quiet=quiet))
    return 0


@app.command("schedule", cls=Command)
def schedule(
    plan: PlanArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (its usual name in the plan's folder).")
    ] = None,
    format_: ScheduleFormatOption = "json",
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a schedule as another program runs it, or as a drawing."""
    from netprobe.formats import schedule_format_named
    from netprobe.pipeline.exporting import export_schedule
    from netprobe.plan import load_plan

    path = out or plan.parent / schedule_format_named(format_).file
    document = load_plan(plan)
    exported = export_schedule(document, format_name=format_)
    output = Output(json=json, quiet=quiet)
    _note_edits(document, plan, output)
    _write(exported, path, [plan], format_, "schedule", force, output)
    return 0


def _note_edits(document: Plan, path: Path, output: Output) -> None:
    from netprobe.pipeline.edited import edits_of

    for text in edits_of(document, path):
        output.note(f"warning: {text}")


def _write(
    exported: Exported,
    path: Path,
    inputs: Sequence[Path],
    format_name: str,
    kind: str,
    force: bool,
    output: Output,
) -> None:
    from netprobe.pipeline import files
    from netprobe.pipeline.exporting import is_export

    there = kind == "hostfile" and _holds(path, exported.text)
    if not there:
        files.prepare_file(
            path, kind=kind, force=force, inputs=inputs, ours=lambda head: is_export(exported.text, head)
        )
    # What the file does not say is said before there is one.
    for warning in exported.warnings:
        output.note(f"warning: {warning}")
    if not there:
        files.save_text(exported.text, path)
    output.note(f"order: {exported.order}" if kind == "hostfile" else f"use: {exported.order}")
    from netprobe.report.headline import EXPORTED

    output.say(
        f"{path} is that file already" if there else f"wrote {path}",
        *([f"next: {exported.command}"] if exported.command else []),
        EXPORTED[kind],
    )
    output.result(
        {
            "file": str(path),
            "format": format_name,
            "command": exported.command,
            "note": exported.order,
            "warnings": list(exported.warnings),
        }
    )


def _holds(path: Path, text: str) -> bool:
    """Whether a file is this text already: a scan writes the hostfile, and asking for it again is not a mistake."""
    try:
        return path.is_file() and path.read_bytes() == text.encode()
    except (OSError, ValueError):
        return False
