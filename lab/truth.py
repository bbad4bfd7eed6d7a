"""The ground truth of a lab, as a document: where each host is, and what was configured.

Written beside the hosts file when a lab is made; docs/lab.md describes it key by key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from netprobe.core.document import Document, Record, load_document
from netprobe.core.matrix import Matrix, empty_matrix
from netprobe.lab.layout import Layout
from netprobe.lab.spec import LabSpec


def rack_id(rack: int) -> str:
    """The id of a rack in the truth, and for ``lab set``."""
    return f"rack{rack}"


class TruthHost(Record):
    """A host and the id of its rack."""

    name: str
    rack: str


class TruthGroup(Record):
    """A rack: its id and its hosts' names, in the order of ``hosts``."""

    id: str
    hosts: list[str]


class Truth(Document):
    """What is so. ``rtt_s`` [src][dst] is the configured round-trip time in the order of ``hosts``, missing
    on the diagonal: twice the one-way delay, since delays are the same in both directions."""

    KIND: ClassVar[str] = "truth"

    schema_: str = Field(default="netprobe.truth/1.0", alias="schema")
    lab: str
    spec: dict[str, Any]
    hosts: list[TruthHost]
    groups: list[TruthGroup]
    rtt_s: Matrix

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
        if self.rtt_s.shape != (len(names), len(names)):
            raise ValueError(f"rtt_s: is not {len(names)} x {len(names)}")
        missing = np.isnan(self.rtt_s)
        if (missing != np.eye(len(names), dtype=bool)).any() or (self.rtt_s[~missing] <= 0).any():
            raise ValueError("rtt_s: must be null on the diagonal and above 0 elsewhere")
        return self


def make_truth(spec: LabSpec, layout: Layout, *, lab: str, seed: int) -> Truth:
    """The truth of a lab laid out from a spec."""
    racks = [host.rack for host in layout.hosts if host.rack is not None]
    names = [host.name for host in layout.hosts]
    rtt_s = empty_matrix(len(names))
    for src, a in enumerate(racks):
        for dst, b in enumerate(racks):
            if src != dst:
                rtt_s[src, dst] = _rtt_s(spec, a, b)
    return Truth(
        seed=seed,
        lab=lab,
        spec=spec.as_spec(),
        hosts=[TruthHost(name=name, rack=rack_id(rack)) for name, rack in zip(names, racks, strict=True)],
        groups=[
            TruthGroup(
                id=rack_id(rack), hosts=[name for name, at in zip(names, racks, strict=True) if at == rack]
            )
            for rack in range(len(spec.racks))
        ],
        rtt_s=rtt_s,
    )


def load_truth(path: str | Path) -> Truth:
    """Read a truth document. Raises DocumentError when it is truncated, newer, of another kind or wrong."""
    return load_document(Truth, Path(path))


def _rtt_s(spec: LabSpec, a: int, b: int) -> float:
    # In whole nanoseconds, as the switch keeps them.
    return round(2e9 * spec.one_way_delay_s(a, b)) / 1e9
