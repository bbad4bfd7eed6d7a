"""``netprobe eval``: a scan's distances and a map's groups against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.output import JsonOption, Output, QuietOption, SeedOption

if TYPE_CHECKING:
    from netprobe.pipeline.truth.evaluating import Judged
    from netprobe.pipeline.truth.placement import Placement

_SLOW_HOSTS = 256


def eval_(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="DOCUMENT...", help="scan.json, map.json, a scan's folder, or several of them."
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            "--truth",
            help="truth.json of a lab, or Slurm's topology.conf or topology.yaml (FILE:NAME for one of several).",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="KEYS", help="Labels of the hosts, outermost first: zone,rack."),
    ] = None,
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="Hosts file (or list) that has the labels.")
    ] = None,
    measurement: Annotated[
        str | None,
        typer.Option("--measurement", metavar="ID", help="rtt, goodput .. (the document's first)."),
    ] = None,
    clusterings: Annotated[
        int, typer.Option("--clusterings", min=0, max=1000, help="Of the run-to-run AMI; 0 for none.")
    ] = 100,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Judge distances and groups: PAIA, ARI, AMI, purity, and how similar repeated clusterings are."""
    from netprobe.core.errors import InputError
    from netprobe.formats import load_hosts
    from netprobe.pipeline import files
    from netprobe.pipeline.places import documents_in
    from netprobe.pipeline.truth.evaluating import judge, load_judged, with_labels
    from netprobe.pipeline.truth.placement import placement_of_labels, read_placement

    if truth is None and labels is None and (documents[0] / files.TRUTH).is_file():
        truth = documents[0] / files.TRUTH  # of a lab, next to its scan
    documents = [found for given in documents for found in documents_in(given, ("scan", "map"))]
    if (truth is None) == (labels is None):
        raise InputError("the truth is needed, from one place: give --truth FILE or --labels zone,rack")
    output = Output(json=json, quiet=quiet)
    given = load_hosts(hosts) if hosts is not None else None
    known = read_placement(truth) if truth is not None else None
    loaded = [(path, load_judged(path)) for path in documents]
    entries: list[tuple[Path, Judged, Placement]] = []
    for path, document in loaded:
        its_hosts = with_labels(document, given, source=str(path))
        placement = known or placement_of_labels(its_hosts, (labels or "").split(","))
        if clusterings > 1 and len(its_hosts) > _SLOW_HOSTS:
            output.note(
                f"{path}: {clusterings} clusterings of {len(its_hosts)} hosts take minutes (--clusterings)"
            )
        judged = judge(
            document,
            placement,
            hosts=its_hosts,
            measurement=measurement,
            clusterings=clusterings,
            seed=seed,
            source=str(path),
        )
        entries.append((path, judged, placement))
    _show(output, entries)
    return 0


def _show(output: Output, entries: list[tuple[Path, Judged, Placement]]) -> None:
    if not (output.json or output.quiet):
        from netprobe.report.evaluation import EvaluatedFile, distance_table, group_table, run_table

        # Short where that distinguishes them: the tables are wide.
        names = [path.name for path, _, _ in entries]
        short = len(set(names)) == len(names)
        rows = [
            EvaluatedFile(
                file=path.name if short else str(path),
                kind=judged.kind,
                measurement=judged.measurement,
                evaluation=judged.evaluation,
            )
            for path, judged, _ in entries
        ]
        placement = entries[0][2]
        runs = run_table(rows)
        output.say(
            distance_table(rows),
            "",
            *((runs, "") if runs is not None else ()),
            group_table(rows),
            "",
            f"against {placement.source}: {', '.join(placement.levels)}; linkage: the distances alone, cut into as "
            "many groups as there are classes",
        )
    output.result({"documents": [eval_summary(*entry) for entry in entries]})


def eval_summary(path: Path, judged: Judged, placement: Placement) -> dict[str, Any]:
    """What ``--json`` says of one document (docs/mapping.md lists the keys)."""
    from dataclasses import asdict

    found = judged.evaluation
    return {
        "file": str(path),
        "kind": judged.kind,
        "measurement": judged.measurement,
        "hosts": found.hosts,
        "truth": {"kind": placement.kind, "source": placement.source, "levels": list(placement.levels)},
        "paia": found.paia.paia,
        "triplets": asdict(found.paia),
        "groups": found.groups,
        "grouping": [asdict(entry) for entry in found.grouping],
        "linkage": None if found.linkage is None else [asdict(entry) for entry in found.linkage],
        "run_to_run": None if found.run_to_run is None else asdict(found.run_to_run),
    }
