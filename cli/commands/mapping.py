"""``netprobe map``: scan.json -> map.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from netprobe.cli.options.documents import LikeOption, ScanArgument
from netprobe.cli.options.numerics import load_numerics
from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption, VerboseOption
from netprobe.cli.progress import working
from netprobe.core.text import meant

GroupsOption = Annotated[
    str,
    typer.Option(
        "--groups",
        help="natural: k by evidence; sqrt: PLink's k = round(sqrt N); auto: sqrt where there is no locality.",
    ),
]
KOption = Annotated[int | None, typer.Option("--k", min=1, help="Form exactly K groups.")]
ElasticityOption = Annotated[
    float,
    typer.Option(
        "--elasticity",
        min=1.0,
        max=2.0,
        help="With sqrt: groups hold at least floor(sqrt N / ELASTICITY) hosts.",
    ),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method", help="ensemble (default), ultrametric, block, huber, or plink: eq. 4.1 as published."
    ),
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", min=1.0, max=2.0, help="Exponent of the embedding's distance.")
]

COMPARED = 256
"""Up to so many hosts natural and sqrt groups are compared unasked: beyond, it takes seconds."""


def map_(
    scan: ScanArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (map.json in the scan's folder).")
    ] = None,
    groups: GroupsOption = "natural",
    k: KOption = None,
    elasticity: ElasticityOption = 2.0,
    method: MethodOption = "ensemble",
    alpha: AlphaOption = None,
    like: LikeOption = None,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare", help="Natural and sqrt groups side by side (up to 256 hosts)."
        ),
    ] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> int:
    """Denoise the distances of a scan, judge locality and form groups."""
    load_numerics()
    from netprobe.core.documents.document import load_document
    from netprobe.core.documents.map import Map
    from netprobe.core.documents.scan import Scan
    from netprobe.pipeline import files
    from netprobe.pipeline.mapping.findings import direction_lines, outlier_lines
    from netprobe.pipeline.mapping.map_scan import map_scan

    path = out or scan.parent / files.MAP
    options = map_options(groups=groups, k=k, elasticity=elasticity, method=method, alpha=alpha)
    document = load_document(Scan, scan)
    earlier = None if like is None else load_document(Map, like)
    if compare is None:
        compare = len(document.hosts) <= COMPARED
    options = replace(options, like=earlier, compare=compare)
    files.prepare_file(path, kind="map", force=force, inputs=[scan] if like is None else [scan, like])
    output = Output(json=json, quiet=quiet, verbose=verbose)
    with working(output, "mapping"):
        result = map_scan(document, options=options, seed=seed)
    files.save(result, path)

    if not (json or quiet):
        from netprobe.report import terminal
        from netprobe.report.headline import headline

        console = output.console()
        output.say(
            terminal.heat_map(document, result, width=console.width, encoding=console.encoding),
            "",
            terminal.group_table(result),
            "",
        )
        output.say(*(comparison_lines(result.grouping.evidence) if verbose else []))
        output.say(*outlier_lines(result.outliers))
        output.say(*direction_lines(result))
        if result.layers.beta is not None:
            output.say(*(f"goodput: {line}" for line in outlier_lines(result.layers.beta.outliers)))
        output.say(*terminal.unplaced_text(result))
        output.say(result.verdict.text, f"wrote {path}", f"next: netprobe plan order {path}")
        output.say(f"{headline(result)}.")
    output.result(map_summary(result) | {"file": str(path)})
    return 0


def map_options(*, groups: str, k: int | None, elasticity: float, method: str, alpha: float | None) -> Any:
    """MapOptions of the command line's words."""
    from netprobe.core.errors import InputError
    from netprobe.embed import METHODS, EmbedOptions
    from netprobe.pipeline.mapping.map_scan import MapOptions

    known = ("natural", "sqrt", "auto")
    if groups not in known:
        raise InputError(f"--groups {groups!r} is not one of natural, sqrt and auto{meant(groups, known)}")
    if method not in METHODS:
        raise InputError(f"--method {method!r} is not one of {', '.join(METHODS)}{meant(method, METHODS)}")
    changes: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
    embed = EmbedOptions(method=method, **changes)
    return MapOptions(embed=embed, groups=groups, k=k, elasticity=elasticity)  # type: ignore[arg-type]


def comparison_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Natural and sqrt groups side by side, a line each, where they were compared."""
    from netprobe.core.units import count

    lines = []
    for row in evidence.get("comparison", ()):
        contrast = "no contrast" if row["contrast"] is None else f"{row['contrast']:.2f}x nearer inside"
        least, hosts = row["smallest"], count(row["largest"], "host")
        sizes = hosts if least == row["largest"] else f"{least} to {hosts}"
        lines.append(f"{row['method']}: {count(row['k'], 'group')} of {sizes}, {contrast}")
    return lines


def map_summary(result: Any) -> dict[str, Any]:
    """What ``--json`` says of a map."""
    return {
        "verdict": result.verdict.model_dump(),
        "groups": [{"id": g.id, "leader": g.leader, "hosts": g.hosts} for g in result.groups],
        "unplaced": result.unplaced,
        "layer": result.grouped_by,
        "layers": list(result.layers.named()),
        "outliers": None if result.outliers is None else result.outliers.model_dump(),
        "comparison": result.grouping.evidence.get("comparison"),
    }
