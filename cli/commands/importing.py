"""``netprobe import``: what others measured, as a scan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netprobe.cli.help import Command
from netprobe.cli.lazy import commands
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption
from netprobe.core.units import count

if TYPE_CHECKING:
    from netprobe.core.documents.scan import Scan

app = commands("Make a document of what others measured.")


@app.callback()
def _group() -> None:
    """Make a document of what others measured."""


@app.command("matrix", cls=Command)
def matrix(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A matrix of latencies or bandwidths (- is stdin).")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (scan.json in FILE's folder).")
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="auto, csv, npy, text, long, markdown, html, json, mpigraph, nccl or goldpinger.",
        ),
    ] = "auto",
    unit: Annotated[
        str | None,
        typer.Option("--unit", "-u", help="ns, us, ms, s; bit/s, B/s with k, M, G, Ki, Mi, Gi before; gbps."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts", help="Hosts file or list: names in the order of the rows, labels, addresses."
        ),
    ] = None,
    zeros: Annotated[
        str, typer.Option("--zeros", help="A zero off the diagonal: refuse, or missing.")
    ] = "refuse",
    column: Annotated[
        str | None, typer.Option("--column", help="Column or key of the value (long, json, nccl).")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select", metavar="COLUMN=VALUE", help="Lines to take (long, json, nccl); repeatable."
        ),
    ] = None,
    transposed: Annotated[
        bool, typer.Option("--transposed", help="Rows are the destinations, columns the sources.")
    ] = False,
    decimal: Annotated[
        str | None,
        typer.Option("--decimal", help="What 1,234 is where the file does not show it: point, comma."),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make a scan of a matrix in a file: CSV, NumPy, Markdown, HTML, JSON, mpiGraph, NCCL, goldpinger .."""
    from netprobe.core.errors import EXIT_OK, EXIT_PARTIAL, InputError
    from netprobe.core.units import unit_named
    from netprobe.formats import load_hosts
    from netprobe.formats.matrix import ReadOptions
    from netprobe.pipeline import files
    from netprobe.pipeline.importing import ImportOptions, import_matrix

    chosen = [text.partition("=") for text in select or []]
    if not all(key and equals for key, equals, _ in chosen):
        raise InputError("--select needs COLUMN=VALUE, such as G=8")
    options = ImportOptions(
        read=ReadOptions(
            format=format_,
            zeros=zeros,
            column=column,
            select=[(key, value) for key, _, value in chosen],
            decimal=decimal,
        ),
        unit=unit,
        hosts=load_hosts(hosts) if hosts is not None else None,
        transposed=transposed,
    )
    if unit is not None:
        unit_named(unit)
    path = out or file.parent / files.SCAN
    files.prepare_file(path, kind="scan", force=force, inputs=[file])
    scan = import_matrix(file, options=options)
    files.save(scan, path)

    show_import(scan, path, Output(json=json, quiet=quiet))
    return EXIT_OK if scan.status == "ok" else EXIT_PARTIAL


def show_import(scan: Scan, path: Path, output: Output) -> None:
    """As text, and with ``--json`` as an object."""
    measurement = scan.measurements[0]
    for warning in scan.warnings:
        output.note(f"warning: {warning}")
    output.say(
        f"{count(len(scan.hosts), 'host')}, {measurement.id} in {measurement.parameters['unit']} "
        f"({measurement.parameters['format']}): {scan.reason}",
        f"wrote {path}",
        f"next: netprobe map {path}",
    )
    output.result(
        {
            "file": str(path),
            "status": scan.status,
            "reason": scan.reason,
            "hosts": [host.name for host in scan.hosts],
            "measurement": measurement.model_dump(),
            "warnings": scan.warnings,
        }
    )
