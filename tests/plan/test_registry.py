"""The one loader of plans: what it verifies, and what it refuses by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from netprobe.core.documents.document import canonical_sha256, dump, write_document
from netprobe.core.errors import DocumentError, InternalError
from netprobe.plan import load_plan, parse_plan, plan_json_schema, plan_kinds, register
from tests.plan.fleets import named, order_plan


@pytest.fixture
def data() -> dict[str, Any]:
    return dump(order_plan(named(4), np.full((4, 4), 1e-4)))


def test_a_written_plan_loads_again(tmp_path: Path) -> None:
    plan = order_plan(named(4), np.full((4, 4), 1e-4))
    write_document(plan, tmp_path / "plan.json")
    again = load_plan(tmp_path / "plan.json")
    assert again == plan.as_written()
    assert again.own_sha256 == canonical_sha256(again) == canonical_sha256(plan)


def test_the_published_schema_accepts_a_plan(data: dict[str, Any]) -> None:
    schema = plan_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "order": 3}, schema)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "spiral"}, "unknown kind 'spiral': known are ds_sync, order"),
        ({"requires": ["warp"]}, r"requires 'warp', which .* \(known: none\)"),
        ({"requires": "warp"}, "requires"),
        ({"schema": "netprobe.plan/2.0"}, "newer than the netprobe.plan/1.3 that"),
        ({"schema": "netprobe.map/1.0"}, "is a map document, and a plan is needed|is a map document"),
        ({"schema": 3}, "no netprobe document"),
        ({"kind": None}, "kind"),
        ({"order": ["n1", "n2", "n3"]}, "each host once"),
        ({"order": ["n1", "n2", "n3", "n3"]}, "lists a host twice"),
        ({"order": ["n1", "n2", "n3", "n9"]}, "each host once"),
        ({"order": [], "left_out": ["n1", "n2", "n3", "n4"]}, "order is empty"),
        ({"cost_s": -1.0}, "cost_s"),
        ({"cost_s": None}, "cost_s"),
        ({"cost_s": 1.0}, "above cost_given_s"),
        ({"lower_bound_s": 1.0}, "lower_bound_s is above"),
        ({"size_bytes": 10**40}, "size_bytes is above 1e.15"),
        ({"cost_given_s": 1e40}, "cost_given_s is 1e.40: no order takes more"),
        (
            {"cost_random": {"orders": 1, "least_s": 1.0, "mean_s": 1e300, "most_s": 1e300}},
            "cost_random has 1e.300: no order takes more",
        ),
        ({"cost_given_s": 7.0}, "cost_given_s is 7.0"),
        (
            {"cost_given_s": 7.0, "order": ["n1", "n3", "n2", "n4"], "kept_given": None},
            "cost_given_s is 7.0, and solver.candidates_s has 0.0004 for it",
        ),
        ({"crossings": 5}, "crossings is 5"),
        ({"crossings_given": 1}, "crossings_given is 1"),
        ({"objective": "best"}, "objective"),
        ({"hosts": []}, "hosts"),
        ({"hosts": [{"name": "n1"}, {"name": "n1"}, {"name": "n2"}, {"name": "n3"}]}, "hosts"),
        ({"hosts": [{"name": "-n1"}]}, "starts with '-'"),
    ],
)
def test_a_plan_that_does_not_hold_is_refused(
    data: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        parse_plan({**data, **change}, source="plan.json")
    text = str(caught.value)
    assert text.startswith("plan.json: ") and "\n" not in text


def test_a_minor_version_ahead_is_read(data: dict[str, Any]) -> None:
    plan = parse_plan({**data, "schema": "netprobe.plan/1.7", "novelty": 1}, source="plan.json")
    assert plan.kind == "order"


@pytest.mark.parametrize("content", ["", "[]", "{", "null", '{"kind": "order"}', "\x00\xff"])
def test_a_file_that_is_no_plan(tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DocumentError):
        load_plan(path)


def test_a_truncated_plan(tmp_path: Path, data: dict[str, Any]) -> None:
    text = json.dumps(data)
    for length in range(0, len(text), 37):
        (tmp_path / "plan.json").write_text(text[:length])
        with pytest.raises(DocumentError):
            load_plan(tmp_path / "plan.json")


def test_a_kind_is_registered_once() -> None:
    assert list(plan_kinds()) == ["ds_sync", "order", "schedule"]
    with pytest.raises(InternalError, match="registered twice"):
        register(plan_kinds()["order"])


def test_a_plan_larger_than_any_of_ours_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netprobe.plan.registry.MOST_PLAN_BYTES", 1000)
    path = tmp_path / "plan.json"
    path.write_text('{"schema": "' + "x" * 2000 + '"}')
    with pytest.raises(DocumentError, match="larger than 1000 bytes"):
        load_plan(path)
