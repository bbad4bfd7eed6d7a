"""The ground truth of a lab, as a document: where each host is, and what was configured.

Written next to the hosts file when a lab is created; docs/lab.md describes it key by key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from netprobe.core.documents.document import Document, Record, load_document
from netprobe.core.documents.matrix import Matrix
from netprobe.lab.spec.faults import Fault, host_index
from netprobe.lab.spec.layout import Layout
from netprobe.lab.spec.spec import LabSpec


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


class TruthFault(Record):
    """A fault at one place: a host, the link from ``src`` to ``dst``, or the path between two racks.

    The effects are those of docs/lab.md in SI units; None where there is no such effect.
    """

    host: str | None = None
    src: str | None = None
    dst: str | None = None
    src_rack: str | None = None
    dst_rack: str | None = None
    loss_ratio: float | None = None
    duplicate_ratio: float | None = None
    delay_s: float | None = None
    jitter_s: float | None = None
    paths_s: list[float] | None = None
    mtu_bytes: int | None = None
    is_black_hole: bool = False


class TruthFlow(Record):
    """A background flow between two hosts."""

    src: str
    dst: str
    rate_bytes_per_s: float


class Truth(Document):
    """What is so. ``rtt_s`` [src][dst] is the configured round-trip time in the order of ``hosts``, missing
    on the diagonal: the one-way delays of both directions, with the delays that faults add and the shortest
    of several paths, and without jitter."""

    KIND: ClassVar[str] = "truth"

    schema_: str = Field(default="netprobe.truth/1.0", alias="schema")
    lab: str
    spec: dict[str, Any]
    hosts: list[TruthHost]
    groups: list[TruthGroup]
    rtt_s: Matrix
    faults: list[TruthFault] = Field(default_factory=list)
    background: list[TruthFlow] = Field(default_factory=list)

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
    faults = [one for fault in spec.faults for one in _fault(fault, layout)]
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
        rtt_s=_rtt_s(spec, names, racks, faults),
        faults=faults,
        background=[
            TruthFlow(src=_name(flow.src, layout), dst=_name(flow.dst, layout), rate_bytes_per_s=flow.rate)
            for flow in spec.background
        ],
    )


def load_truth(path: str | Path) -> Truth:
    """Read a truth document. Raises DocumentError when it is truncated, newer, of another kind or wrong."""
    return load_document(Truth, Path(path))


def _fault(fault: Fault, layout: Layout) -> list[TruthFault]:
    places: list[dict[str, Any]] = [{"host": _name(fault.host, layout)}] if fault.host else []
    places += [{"src": _name(src, layout), "dst": _name(dst, layout)} for src, dst in fault.links]
    places += [{"src_rack": rack_id(src), "dst_rack": rack_id(dst)} for src, dst in fault.rack_links]
    effects: dict[str, Any] = {
        "loss_ratio": fault.loss,
        "duplicate_ratio": fault.duplicate,
        "delay_s": fault.delay,
        "jitter_s": fault.jitter,
        "paths_s": None if fault.paths is None else list(fault.paths),
        "mtu_bytes": fault.mtu,
        "is_black_hole": bool(fault.drop or fault.down),
    }
    return [TruthFault(**place, **effects) for place in places]


def _name(text: str, layout: Layout) -> str:
    return layout.at(*host_index(text)).name


def _rtt_s(spec: LabSpec, names: list[str], racks: list[int], faults: list[TruthFault]) -> Matrix:
    # In whole nanoseconds, as the switch keeps them.
    count = len(names)
    one_way_ns = np.zeros((count, count))
    between = np.array(
        [
            [round(1e9 * spec.one_way_delay_s(a, b)) for b in range(len(spec.racks))]
            for a in range(len(spec.racks))
        ]
    )
    rack_of = np.array(racks)
    one_way_ns += between[rack_of[:, None], rack_of[None, :]]
    index = {name: at for at, name in enumerate(names)}
    for fault in faults:
        extra_ns = round(1e9 * ((fault.delay_s or 0.0) + min(fault.paths_s or [0.0])))
        if fault.host is not None:
            one_way_ns[index[fault.host], :] += extra_ns
            one_way_ns[:, index[fault.host]] += extra_ns
        elif fault.src is not None and fault.dst is not None:
            one_way_ns[index[fault.src], index[fault.dst]] += extra_ns
        else:
            src, dst = ([rack_id(rack) == one for rack in racks] for one in (fault.src_rack, fault.dst_rack))
            one_way_ns[np.ix_(src, dst)] += extra_ns
    rtt_s: Matrix = (one_way_ns + one_way_ns.T) / 1e9
    np.fill_diagonal(rtt_s, np.nan)
    return rtt_s
