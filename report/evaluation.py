"""Evaluations of scans and maps as tables: how right the distances are, and how right the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from netprobe.cluster.evaluation import Agreement, Evaluation


@dataclass(frozen=True, kw_only=True)
class EvaluatedFile:
    """A row: the document's file, whose distances they are, and what they are worth."""

    file: str
    kind: str
    measurement: str
    evaluation: Evaluation


def distance_table(rows: Sequence[EvaluatedFile]) -> Table:
    """PAIA and run-to-run AMI, a row a document."""
    table = _table("document", "of", "hosts", "PAIA", "triplets", "ties", "missing", "run-to-run AMI")
    for row in rows:
        found = row.evaluation
        paia, runs = found.paia, found.run_to_run
        table.add_row(
            row.file,
            row.measurement,
            str(found.hosts),
            _ratio(paia.paia),
            str(paia.triplets),
            str(paia.ties),
            str(paia.missing),
            "-" if runs is None else f"{runs.mean_ami:.3f} (least {runs.least_ami:.3f}, k = {runs.k})",
        )
    return table


def group_table(rows: Sequence[EvaluatedFile]) -> Table:
    """Agreement with each level of the truth, a row for the groups and one for the matrix cut at the true number."""
    table = _table("document", "groups by", "groups", "level", "classes", "ARI", "AMI", "purity")
    for row in rows:
        found = row.evaluation
        for agreement in found.grouping:
            by = "map" if row.kind == "map" else "natural groups"
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
        text = name in ("document", "of", "groups by", "level")
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    return table


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
