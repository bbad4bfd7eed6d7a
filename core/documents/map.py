"""The Map document: denoised, complete distances, groups, and the verdict on locality."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from netprobe.core.documents.document import Document, Record
from netprobe.core.documents.frames import links_dataset, links_frame
from netprobe.core.documents.matrix import FloatMatrix, Matrix
from netprobe.core.documents.notebook import document_html, heat_map_svg, table_html
from netprobe.core.documents.scan import ScannedHost, check_hosts_and_matrices
from netprobe.core.numeric.distances import is_directed
from netprobe.core.text import listed, one_line
from netprobe.core.units import count, seconds_text

if TYPE_CHECKING:
    import pandas
    import xarray

Locality = Literal["found", "none", "cannot_tell"]
DIRECTED = "directed"
"""Of ``requires``: distances depend on the direction, and a reader that takes them for symmetric is wrong."""
FEATURES = frozenset({DIRECTED})


class HeldOut(Record):
    """Error of the fit on links it did not see; the document's own fit uses every link."""

    links: int = Field(ge=0)
    median_relative_error: float | None = None


class Group(Record):
    """Hosts found near each other."""

    id: str
    hosts: list[str]
    leader: str
    """The host with the least summed distance to its group."""
    radius_s: float | None = None
    """Largest distance of a member from the leader."""
    radius_s_per_byte: float | None = None
    """The same where the groups are those of goodput."""


class Grouping(Record):
    """How the groups were formed."""

    method: str
    k: int = Field(ge=0)
    layer: str | None = None
    """Whose distances groups, verdict and outliers come from: ``rtt`` (so in older maps, without it) or ``beta``."""
    evidence: dict[str, Any] = Field(default_factory=dict)


class SlowHost(Record):
    """A host that is slower towards the others than its place explains."""

    host: str
    ratio: float
    """Median over its links of measured over expected."""
    excess_s: float | None = None
    """The same as a difference; of RTT."""
    excess_s_per_byte: float | None = None
    """The same as a difference; of goodput."""
    slower: int
    links: int
    """``slower`` of ``links`` are more than a tenth above what is expected."""
    text: str


class SlowLink(Record):
    """A link slower than the groups and the hosts at its ends explain."""

    hosts: list[str]
    ratio: float


class AsymmetricLink(Record):
    """``src`` to ``dst`` measured ``ratio`` times what ``dst`` to ``src`` did."""

    src: str
    dst: str
    ratio: float


class Outliers(Record):
    """The outliers, largest effect first; lists of links end after 100, the counts are of all."""

    hosts: list[SlowHost] = Field(default_factory=list)
    links: list[SlowLink] = Field(default_factory=list)
    links_found: int = 0
    asymmetric: list[AsymmetricLink] = Field(default_factory=list)
    asymmetric_found: int = 0


class FittedLayer(Record):
    """What every layer has: how the distances of one measurement were fitted. Each has its own unit."""

    coordinates: list[list[float]]
    """For drawing: one row per host, in the layer's unit to the power 1/alpha; empty for an unplaced host."""
    stress: float | None = None
    held_out: HeldOut | None = None
    interval_factor: Matrix | None = None
    """f such that nine of ten readings of a link lie in distance / f to distance * f. Optional: written
    where links of placed hosts are missing."""
    method: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    one_direction: list[list[str]] | None = None
    """In a directed layer: links ``[src, dst]`` that were not measured, and whose distance is that of the way back.
    The first 100; ``one_direction_found`` counts all."""
    one_direction_found: int | None = None

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without(handler(self), "one_direction", "one_direction_found", "one_way")


class RttLayer(FittedLayer):
    """Round-trip times, denoised and complete. A host without any reading has null cells."""

    distance_s: Matrix
    """[src][dst]; symmetric, unless the map requires ``directed``."""
    heights_s: list[float | None]
    one_way: bool | None = None
    """Whether the distances are one-way times: a hop costs its distance, where it costs half of a round trip."""

    @property
    def distance(self) -> FloatMatrix:
        """(N, N) the distances, in the layer's unit."""
        return self.distance_s

    @property
    def hop_s(self) -> FloatMatrix:
        """(N, N) ``[src, dst]`` seconds of a hop: half of a round trip, or the one-way time itself."""
        return self.distance_s.copy() if self.one_way else self.distance_s / 2.0


class BetaLayer(FittedLayer):
    """Seconds a byte, 1 / goodput, denoised and complete: the far hosts are those that take long for a byte.

    A host that no tested link ties to the others has null cells. ``parameters["measurement"]`` is the id of
    the goodput.
    """

    distance_s_per_byte: Matrix
    """[src][dst]; symmetric, unless the map requires ``directed``."""
    heights_s_per_byte: list[float | None]
    outliers: Outliers | None = None
    """The outliers of the goodput, where the map's own ``outliers`` are those of RTT."""

    @property
    def distance(self) -> FloatMatrix:
        """(N, N) the distances, in the layer's unit."""
        return self.distance_s_per_byte


class Layers(Record):
    """One layer a measurement. Later versions add layers in units of their own."""

    rtt: RttLayer | None = None
    beta: BetaLayer | None = None

    def named(self) -> dict[str, RttLayer | BetaLayer]:
        """The layers there are, by name."""
        found = {"rtt": self.rtt, "beta": self.beta}
        return {name: layer for name, layer in found.items() if layer is not None}


class Verdict(Record):
    """Whether location matters at all."""

    locality: Locality
    contrast: float | None = None
    """Median distance across groups over the median inside them."""
    p_value: float | None = Field(default=None, ge=0, le=1)
    text: str


class Map(Document):
    """``netprobe.map``: child of a scan. ``requires`` names the features a reader must know to read it right.

    A map that requires nothing is written as version 1.0 has it.
    """

    KIND: ClassVar[str] = "map"
    VERSION: ClassVar[tuple[int, int]] = (1, 1)

    schema_: str = Field(default="netprobe.map/1.0", alias="schema")
    requires: list[str] = Field(default_factory=list)
    hosts: list[ScannedHost]
    unplaced: list[str] = Field(default_factory=list)
    """Hosts without a reading; they are in no group."""
    layers: Layers
    grouping: Grouping
    groups: list[Group]
    verdict: Verdict
    outliers: Outliers | None = None

    @property
    def grouped_by(self) -> str:
        """The name of the layer that groups, verdict and outliers come from."""
        return self.grouping.layer or "rtt"

    @property
    def distance(self) -> FloatMatrix:
        """(N, N) denoised distances of that layer, in its unit; NaN only for unplaced hosts."""
        return self.layers.named()[self.grouped_by].distance

    @property
    def by_agents(self) -> bool:
        """Whether agents measured its scan, and can measure more; a matrix that was imported has nobody to ask."""
        return any(host.agent is not None for host in self.hosts)

    @property
    def is_directed(self) -> bool:
        """Whether a layer's distances depend on the direction."""
        return DIRECTED in self.requires

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without(handler(self), "requires")

    @model_validator(mode="after")
    def _requirements_are_known(self) -> Map:
        unknown = sorted(set(self.requires) - FEATURES)
        if unknown:
            raise ValueError(
                f"requires {unknown[0][:60]!r}, which this netprobe does not know: update netprobe"
            )
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Map:
        layers = self.layers.named()
        if self.grouped_by not in layers:
            raise ValueError(f"its groups are those of layers.{self.grouped_by}, which it lacks")
        for name, layer in layers.items():
            _check_layer(self, name, layer)
        names = {host.name for host in self.hosts}
        grouped = [name for group in self.groups for name in group.hosts]
        if len(set(grouped)) != len(grouped):
            raise ValueError("a host is in two groups")
        if set(grouped) | set(self.unplaced) != names or set(grouped) & set(self.unplaced):
            raise ValueError("each host must be in one group or in unplaced")
        if len({group.id for group in self.groups}) != len(self.groups):
            raise ValueError("two groups have the same id")
        if any(not group.hosts or group.leader not in group.hosts for group in self.groups):
            raise ValueError("a group is empty or its leader is not one of its hosts")
        return self

    def summary(self) -> str:
        """Hosts, groups, the verdict on locality."""
        verdict = {"found": "found", "none": "none"}.get(self.verdict.locality, "cannot tell")
        left = f", {len(self.unplaced)} unplaced" if self.unplaced else ""
        return (
            f"{count(len(self.hosts), 'host')}, {count(len(self.groups), 'group')}{left}, locality: {verdict}"
        )

    def columns(self) -> dict[str, FloatMatrix]:
        """(N, N) the distances of each layer: ``distance_s``, ``distance_s_per_byte``."""
        ends = {"rtt": "distance_s", "beta": "distance_s_per_byte"}
        return {ends[name]: layer.distance for name, layer in self.layers.named().items()}

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each directed link: the groups of its ends (``""``: unplaced), and its `columns`, NaN for unplaced
        hosts. Raises PlatformError without pandas."""
        return links_frame(
            [host.name for host in self.hosts], self.columns(), labels={"group": self._group_ids()}
        )

    def to_xarray(self) -> xarray.Dataset:
        """The `columns` on the dimensions ``src`` and ``dst``, whose coordinates are groups too. Raises PlatformError
        without xarray."""
        return links_dataset(
            [host.name for host in self.hosts],
            self.columns(),
            labels={"group": self._group_ids()},
            attributes={"schema": self.schema_, "created_at": self.created_at, "verdict": self.verdict.text},
        )

    def _group_ids(self) -> list[str]:
        ids = {name: group.id for group in self.groups for name in group.hosts}
        return [ids.get(host.name, "") for host in self.hosts]

    def _repr_html_(self) -> str:
        index = {host.name: at for at, host in enumerate(self.hosts)}
        names = [name for group in self.groups for name in group.hosts] + list(self.unplaced)
        order = [index[name] for name in names]
        by_rtt = self.grouped_by == "rtt"
        rows = [
            [group.id, str(len(group.hosts)), group.leader, listed(group.hosts, 16)] for group in self.groups
        ]
        return document_html(
            f"Map: {self.summary()}",
            heat_map_svg(
                names,
                self.distance[np.ix_(order, order)],
                unit_text=seconds_text if by_rtt else _per_byte_text,
                what="distance",
            ),
            table_html(("group", "size", "leader", "hosts"), rows),
            f"<p>{escape(one_line(self.verdict.text))}</p>",
        )


def _per_byte_text(value: float) -> str:
    return f"{seconds_text(value * 1e6)} a MB"


def _without(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    """``data`` without those of ``keys`` that say nothing: older documents do not have them."""
    for key in keys:
        if key in data and data[key] in (None, []):
            del data[key]
    return data


def _check_layer(map_: Map, name: str, layer: RttLayer | BetaLayer) -> None:
    """Shapes, symmetry (unless the map is directed) and completeness of one layer; raises ValueError.

    The layer of the groups knows every placed host. Another one may know fewer, but those it knows wholly.
    """
    key = "distance_s" if isinstance(layer, RttLayer) else "distance_s_per_byte"
    distance = layer.distance
    matrices = {f"layers.{name}.{key}": distance}
    if layer.interval_factor is not None:
        matrices[f"layers.{name}.interval_factor"] = layer.interval_factor
    check_hosts_and_matrices(map_.hosts, matrices)
    placed = [i for i, host in enumerate(map_.hosts) if host.name not in map_.unplaced]
    if name != map_.grouped_by:
        placed = [i for i in placed if not np.isnan(distance[i]).all()]
    if np.isnan(distance[np.ix_(placed, placed)]).any():
        raise ValueError(f"layers.{name}.{key} has a missing cell between placed hosts")
    if not map_.is_directed and is_directed(distance):
        raise ValueError(f"layers.{name}.{key} is not symmetric, and the map does not require {DIRECTED!r}")
