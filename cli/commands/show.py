"""``netprobe show``: what a folder or a document holds, again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.output import JsonOption, Output

if TYPE_CHECKING:
    from netprobe.pipeline.showing import Shown


def show(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER|DOCUMENT", help="A scan's folder, or one file of it.")
    ],
    links: Annotated[bool, typer.Option("--links", help="The links in a table, instead.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="With --links: those of this host.")
    ] = None,
    slowest: Annotated[
        int | None,
        typer.Option("--slowest", metavar="N", min=1, help="With --links: the N slowest, slowest first."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --links: all of them, as CSV.")] = False,
    tree: Annotated[
        bool,
        typer.Option("--tree", help="The tree of the groups (dendrogram), instead: which are near which."),
    ] = False,
    json: JsonOption = False,
) -> int:
    """Show a scan, its map, plans and runs again: heat map, groups, order, verdict, capacities, slow hosts."""
    from netprobe.core.errors import InputError
    from netprobe.pipeline.showing import load_shown

    wants_links = links or host is not None or slowest is not None or csv
    if wants_links and tree:
        raise InputError("--tree and --links are two views: give one of them")
    if csv and json:
        raise InputError("--csv and --json are two forms: give one of them")
    shown = load_shown(source)
    output = Output(json=json)
    for note in shown.notes:
        output.note(f"warning: {note}")
    if wants_links:
        _links(shown, output, host=host, slowest=slowest, csv=csv)
    elif tree:
        _tree(shown, output)
    else:
        _all(shown, output)
    return 0


def _links(shown: Shown, output: Output, *, host: str | None, slowest: int | None, csv: bool) -> None:
    from dataclasses import asdict

    from netprobe.pipeline.showing import link_rows
    from netprobe.report.links import ROWS_SHOWN, link_table, links_csv

    rows = link_rows(shown, host=host, slowest=slowest)
    if csv:
        output.say(links_csv(rows).rstrip("\n"))
        return
    output.result({"links": [asdict(row) for row in rows]} if output.json else {})
    most = None if slowest is not None else ROWS_SHOWN
    output.say(link_table(rows, most=most))
    if most is not None and len(rows) > most:
        output.say(f".. and {len(rows) - most} more links (--slowest N, --host HOST; --csv has all)")


def _tree(shown: Shown, output: Output) -> None:
    from netprobe.core.errors import InputError
    from netprobe.report.links import tree_lines

    if shown.map is None:
        raise InputError(f"{shown.source}: --tree is of a map, and no map is there")
    lines = tree_lines(shown.map)
    output.say(*lines)
    output.result({"tree": lines})


def _all(shown: Shown, output: Output) -> None:
    output.result(_summary(shown) if output.json else {})
    if output.json:
        return
    from netprobe.pipeline.shown_text import shown_parts

    console = output.console()
    output.say(*shown_parts(shown, width=console.width, encoding=console.encoding))


def _summary(shown: Shown) -> dict[str, Any]:
    """What ``--json`` says: the summaries that the commands give which made the documents."""
    from netprobe.cli.commands.capacity import capacity_summary
    from netprobe.cli.commands.mapping import map_summary
    from netprobe.cli.commands.verify import verify_summary

    data: dict[str, Any] = {"source": str(shown.source)}
    if shown.scan is not None:
        hosts = [{"name": h.name, "status": h.status, "reason": h.reason} for h in shown.scan.hosts]
        data["scan"] = {"status": shown.scan.status, "reason": shown.scan.reason, "hosts": hosts}
        data["scan"]["warnings"] = list(shown.scan.warnings)
    if shown.map is not None:
        data["map"] = map_summary(shown.map)
    if shown.capacity is not None:
        data["capacity"] = capacity_summary(shown.capacity)
    data["plans"] = [
        {"file": str(path)}
        | plan.model_dump(mode="json", by_alias=True, exclude={"hosts", "parents", "transfers", "chunks"})
        for path, plan in shown.plans
    ]
    data["verify"] = [{"file": str(path)} | verify_summary(verify) for path, verify in shown.verifies]
    return data
