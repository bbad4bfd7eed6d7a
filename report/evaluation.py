"""Evaluations of scans and maps as tables: how right the distances are, and how right the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from netprobe.cluster.evaluate.evaluation import Agreement, Evaluation


@dataclass(frozen=True, kw_only=True)
class EvaluatedFile:
    """A row: the document's file, whose distances they are, and how they compare with the truth."""

    file: str
    kind: str
    measurement: str
    evaluation: Evaluation


def distance_table(rows: Sequence[EvaluatedFile]) -> Table:
    """PAIA, one row per document."""
    table = _table("document", "of", "hosts", "PAIA", "triplets", "ties", "missing")
    for row in rows:
        paia = row.evaluation.paia
        table.add_row(
            row.file,
            row.measurement,
            str(row.evaluation.hosts),
            _ratio(paia.paia),
            str(paia.triplets),
            str(paia.ties),
            str(paia.missing),
        )
    return table


def run_table(rows: Sequence[EvaluatedFile]) -> Table | None:
    """How similar repeated clusterings into k groups are, one row per document; None where none were made."""
    table = _table("document", "clusterings", "k", "run-to-run AMI", "least")
    for row in rows:
        runs = row.evaluation.run_to_run
        if runs is not None:
            figures = f"{runs.mean_ami:.3f}", f"{runs.least_ami:.3f}"
            table.add_row(row.file, str(runs.clusterings), str(runs.k), *figures)
    return table if table.row_count else None


def group_table(rows: Sequence[EvaluatedFile]) -> Table:
    """Agreement with each level of the truth, a row for the groups and one for the matrix cut at the true number."""
    table = _table("document", "by", "groups", "level", "classes", "ARI", "AMI", "purity")
    for row in rows:
        found = row.evaluation
        for agreement in found.grouping:
            by = "map" if row.kind == "map" else "natural"
            table.add_row(row.file, by, str(found.groups), *_agreement(agreement))
        for agreement in found.linkage or ():
            table.add_row(row.file, "linkage", str(agreement.classes), *_agreement(agreement))
    return table


def _agreement(agreement: Agreement) -> tuple[str, ...]:
    numbers = (agreement.ari, agreement.ami, agreement.purity)
    return (agreement.level, str(agreement.classes), *map(_ratio, numbers))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        text = name in ("document", "of", "by", "level")
        # In a narrow terminal names are folded, and no number is.
        table.add_column(name, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    return table


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
