"""The kinds of plans, and the one public loader: loading a plan proves it.

A kind is one module that ends with one ``register`` call; it is imported when a plan of that kind is met. A plan
whose ``kind`` or any entry of whose ``requires`` is not known here is refused by name, since obeying half of
a plan is worse than obeying none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic.json_schema import models_json_schema

from netprobe.core.documents.document import Document, parse_document, read_json
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.errors import DocumentError, InternalError

MOST_PLAN_BYTES = 1 << 27
"""Of a plan's JSON, whose large tables are in its side file: read, it takes ten times as much memory."""


@dataclass(frozen=True, kw_only=True)
class PlanKind:
    """One kind of plan. ``prove`` raises ValueError with the first thing that does not hold."""

    kind: str
    model: type[Plan]
    prove: Callable[[Plan], None]
    summary: str
    features: frozenset[str] = frozenset()
    """What ``requires`` of a plan of this kind may name."""


_KINDS: dict[str, PlanKind] = {}
_MODULES = {
    "ds_sync": "netprobe.plan.ds_sync.document",
    "order": "netprobe.plan.order.kind",
    "schedule": "netprobe.plan.schedule.document",
}
"""What registers each kind."""


def register(entry: PlanKind) -> None:
    """Add a kind. Raises InternalError when its name is taken."""
    if entry.kind in _KINDS:
        raise InternalError(f"plan kind {entry.kind!r} is registered twice")
    _KINDS[entry.kind] = entry


def plan_kinds() -> dict[str, PlanKind]:
    """The known kinds by name."""
    for kind in _MODULES:
        _known(kind)
    return dict(sorted(_KINDS.items()))


def _known(kind: str) -> PlanKind | None:
    if kind not in _KINDS and kind in _MODULES:
        importlib.import_module(_MODULES[kind])
    return _KINDS.get(kind)


def load_plan(path: Path) -> Plan:
    """Read, validate and prove a plan of any known kind. Raises DocumentError with one line."""
    return parse_plan(read_json(path, MOST_PLAN_BYTES), source=str(path), folder=path.parent)


def parse_plan(data: dict[str, Any], *, source: str, folder: Path | None = None) -> Plan:
    """The plan in ``data`` (the JSON object of a document), proved; ``folder`` is that of its side file.

    Raises DocumentError for another kind of document, a newer major version, an unknown kind or an unknown
    entry of ``requires``, for a plan that does not hold, and for one whose content is not that of its ``own_sha256``.
    """
    base = parse_document(_Head, data, source=source, folder=folder)
    entry = _known(base.kind)
    if entry is None:
        raise DocumentError(
            f"is a plan of unknown kind {base.kind[:60]!r}: known are {', '.join(plan_kinds())}",
            source=source,
        )
    unknown = [name for name in base.requires if name not in entry.features]
    if unknown:
        known = ", ".join(sorted(entry.features)) or "none"
        raise DocumentError(
            f"requires {unknown[0][:60]!r}, which this netprobe does not know for plans of kind {base.kind} "
            f"(known: {known}): update netprobe",
            source=source,
        )
    plan = parse_document(entry.model, data, source=source, folder=folder)
    prove_plan(plan, source=source)
    if plan.own_sha256 is not None and not plan.is_as_written():
        raise DocumentError(
            "was edited since netprobe wrote it: its content is not that of its own_sha256, so its figures may be of "
            "something else. Plan it again, or, where the edit is meant, delete the line with own_sha256",
            source=source,
        )
    return plan


def prove_plan(plan: Plan, *, source: str | None = None) -> None:
    """Prove a plan that was just built, or loaded. Raises DocumentError when it does not hold."""
    entry = _known(plan.kind)
    if entry is None:
        raise DocumentError(f"is a plan of unknown kind {plan.kind!r}", source=source)
    try:
        entry.prove(plan)
    except ValueError as error:
        raise DocumentError(f"is not a valid {plan.kind} plan: {error}", source=source) from None


def plan_json_schema() -> dict[str, Any]:
    """JSON Schema of a plan of any known kind."""
    models = [entry.model for entry in plan_kinds().values()]
    references, schema = models_json_schema([(model, "validation") for model in models])
    choices = [references[(model, "validation")] for model in models]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "netprobe plan",
        "oneOf": choices,
        **schema,
    }


class _Head(Document):
    """What must be known of a plan before the rest of it can be read."""

    KIND = "plan"
    VERSION = OrderPlan.VERSION

    kind: str
    requires: list[str] = Field(default_factory=list)
