"""``netprobe map``: scan.json -> map.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from netprobe.cli.output import ForceOption, JsonOption, Output, QuietOption, SeedOption

GroupsOption = Annotated[
    str, typer.Option("--groups", help="natural: k by evidence; sqrt: PLink's k = round(sqrt N).")
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
    str, typer.Option("--method", help="robust (default), or plink: eq. 4.1 as published.")
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", min=1.0, max=2.0, help="Exponent of the embedding's distance.")
]


def map_(
    scan: Annotated[Path, typer.Argument(metavar="SCAN", help="A scan.json.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (map.json beside the scan).")
    ] = None,
    groups: GroupsOption = "natural",
    k: KOption = None,
    elasticity: ElasticityOption = 2.0,
    method: MethodOption = "robust",
    alpha: AlphaOption = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Denoise the distances of a scan, judge locality and form groups."""
    from netprobe.core.document import load_document
    from netprobe.core.scan import Scan
    from netprobe.pipeline import files
    from netprobe.pipeline.mapping import map_scan

    path = out or scan.parent / files.MAP
    options = map_options(groups=groups, k=k, elasticity=elasticity, method=method, alpha=alpha)
    document = load_document(Scan, scan)
    files.prepare_file(path, kind="map", force=force, inputs=[scan])
    result = map_scan(document, options=options, seed=seed)
    files.save(result, path)

    output = Output(json=json, quiet=quiet)
    if not (json or quiet):
        from netprobe.report import terminal

        console = output.console()
        output.say(
            terminal.heat_map(document, result, width=console.width, encoding=console.encoding),
            "",
            terminal.group_table(result),
            "",
        )
        output.say(result.verdict.text, f"wrote {path}", f"next: netprobe plan order {path}")
    output.result(map_summary(result) | {"file": str(path)})
    return 0


def map_options(*, groups: str, k: int | None, elasticity: float, method: str, alpha: float | None) -> Any:
    """MapOptions of the command line's words."""
    from netprobe.core.errors import InputError
    from netprobe.embed import EmbedOptions
    from netprobe.pipeline.mapping import MapOptions

    if groups not in ("natural", "sqrt"):
        raise InputError(f"--groups {groups!r} is neither natural nor sqrt")
    if method not in ("robust", "plink"):
        raise InputError(f"--method {method!r} is neither robust nor plink")
    changes: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
    embed = EmbedOptions(method=method, **changes)  # type: ignore[arg-type]
    return MapOptions(embed=embed, groups=groups, k=k, elasticity=elasticity)  # type: ignore[arg-type]


def map_summary(result: Any) -> dict[str, Any]:
    """What ``--json`` says of a map."""
    return {
        "verdict": result.verdict.model_dump(),
        "groups": [{"id": g.id, "leader": g.leader, "hosts": g.hosts} for g in result.groups],
        "unplaced": result.unplaced,
    }
