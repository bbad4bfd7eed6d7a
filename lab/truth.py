"""The ground truth of a lab, as a document: where each host is, and what was configured.

Written beside the hosts file when a lab is made; docs/lab.md describes it key by key.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from netprobe.core.errors import DocumentError
from netprobe.lab.layout import Layout
from netprobe.lab.spec import LabSpec

SCHEMA: Final = "netprobe.truth/1.0"
_MAJOR = 1
_KIND = "netprobe.truth"


def rack_id(rack: int) -> str:
    """The id of a rack in the truth, and for ``lab set``."""
    return f"rack{rack}"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("needs a time zone, UTC")
    return moment


class _Part(BaseModel):
    # Unknown keys of a later minor version are let through: that is what a minor version may add.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class TruthHost(_Part):
    """A host and the id of its rack."""

    name: str
    rack: str


class TruthGroup(_Part):
    """A rack: its id and its hosts' names, in the order of ``hosts``."""

    id: str
    hosts: tuple[str, ...]


class Truth(_Part):
    """What is so. ``rtt_s[src][dst]`` is the configured round-trip time in the order of ``hosts``, null on
    the diagonal: twice the one-way delay, since delays are the same in both directions."""

    schema_: Literal["netprobe.truth/1.0"] = Field(alias="schema")
    created_at: Annotated[datetime, AfterValidator(_in_utc)]
    lab: str
    seed: int
    spec: dict[str, Any]
    hosts: tuple[TruthHost, ...]
    groups: tuple[TruthGroup, ...]
    rtt_s: tuple[tuple[float | None, ...], ...]

    @model_validator(mode="after")
    def _consistent(self) -> Truth:
        names = [host.name for host in self.hosts]
        if len(set(names)) != len(names):
            raise ValueError("hosts: a name is there twice")
        grouped = {name: group.id for group in self.groups for name in group.hosts}
        if sum(len(group.hosts) for group in self.groups) != len(names) or grouped != {
            host.name: host.rack for host in self.hosts
        }:
            raise ValueError("groups: do not hold each host once, in the rack that hosts says")
        if len(self.rtt_s) != len(names) or any(len(row) != len(names) for row in self.rtt_s):
            raise ValueError(f"rtt_s: is not {len(names)} x {len(names)}")
        for src, row in enumerate(self.rtt_s):
            for dst, rtt_s in enumerate(row):
                if (rtt_s is None) != (src == dst) or (rtt_s is not None and rtt_s <= 0):
                    raise ValueError(
                        f"rtt_s[{src}][{dst}]: must be null on the diagonal and above 0 elsewhere"
                    )
        return self

    def to_json(self) -> str:
        """The document as text."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"


def make_truth(
    spec: LabSpec, layout: Layout, *, lab: str, seed: int, created_at: datetime | None = None
) -> Truth:
    """The truth of a lab laid out from a spec."""
    racks = [host.rack for host in layout.hosts if host.rack is not None]
    names = [host.name for host in layout.hosts]
    return Truth(
        schema=SCHEMA,
        created_at=created_at or datetime.now(timezone.utc),
        lab=lab,
        seed=seed,
        spec=spec.as_spec(),
        hosts=tuple(
            TruthHost(name=name, rack=rack_id(rack)) for name, rack in zip(names, racks, strict=True)
        ),
        groups=tuple(
            TruthGroup(
                id=rack_id(rack),
                hosts=tuple(name for name, at in zip(names, racks, strict=True) if at == rack),
            )
            for rack in range(len(spec.racks))
        ),
        rtt_s=tuple(
            tuple(None if src == dst else _rtt_s(spec, a, b) for dst, b in enumerate(racks))
            for src, a in enumerate(racks)
        ),
    )


def load_truth(path: str | Path) -> Truth:
    """Read a truth document. Raises DocumentError when it is truncated, newer, of another kind or wrong."""
    source = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}", source=source) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"is not a complete JSON document: {error}", source=source) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    kind, _, version = schema.partition("/") if isinstance(schema, str) else ("", "", "")
    if kind != _KIND:
        raise DocumentError(
            f"is no ground truth of a lab: its schema is {schema!r}, not {SCHEMA!r}", source=source
        )
    major, _, _ = version.partition(".")
    if not major.isdecimal() or int(major) > _MAJOR:
        raise DocumentError(
            f"is of version {version}, and this netprobe reads up to {_MAJOR}.x", source=source
        )
    try:
        return Truth.model_validate_json(json.dumps({**document, "schema": SCHEMA}))
    except (ValidationError, ValueError) as error:
        raise DocumentError(_first_faults(error), source=source) from error


def _rtt_s(spec: LabSpec, a: int, b: int) -> float:
    # In whole nanoseconds, as the switch keeps them.
    return round(2e9 * spec.one_way_delay_s(a, b)) / 1e9


def _first_faults(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    items = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [
        ": ".join(
            part
            for part in (".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, "))
            if part
        )
        for item in items[:8]
    ]
    if len(items) > len(shown):
        shown.append(f"and {len(items) - len(shown)} more")
    return "; ".join(shown)
