"""The published JSON Schemas, one a kind of document."""

from __future__ import annotations

from typing import Any

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Document
from netprobe.core.documents.map import Map
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.verify import Verify
from netprobe.lab.truth import Truth
from netprobe.plan.registry import plan_json_schema

KINDS = ("scan", "map", "capacity", "plan", "verify", "truth")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schema (2020-12) by kind: scan, map, capacity, plan, verify, truth."""
    models: tuple[type[Document], ...] = (Scan, Map, Capacity, Verify, Truth)
    found = {model.KIND: model.model_json_schema(by_alias=True) for model in models}
    found["plan"] = plan_json_schema()
    return {kind: {"$schema": DIALECT, **found[kind], "title": f"netprobe.{kind}"} for kind in KINDS}
