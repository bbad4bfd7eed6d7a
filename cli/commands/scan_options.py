"""The options of ``netprobe scan`` in groups, and what each gives to the pipeline."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.commands.mapping import (
    AlphaOption,
    ElasticityOption,
    GroupsOption,
    KOption,
    MethodOption,
)
from netprobe.cli.commands.plan import AlgorithmOption, ObjectiveOption, RootOption
from netprobe.cli.options.documents import LikeOption
from netprobe.cli.options.goodput import (
    GoodputOption,
    GoodputSecondsOption,
    MeasureOption,
    SizeOption,
    StreamsOption,
)
from netprobe.cli.options.latency import FullVisitsOption, LatencyOption, SourcePortsOption, TraceOption
from netprobe.cli.options.probing import (
    GentleOption,
    IntervalOption,
    LinksAtOnceOption,
    PairsOption,
    ProbesOption,
    RateOption,
    TimeOption,
)

if TYPE_CHECKING:
    from netprobe.pipeline.mapping.map_scan import MapOptions
    from netprobe.pipeline.scanning.measuring import Measuring


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is scanned, where the files go, and which stage is the last."""

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOSTS",
            help="Names, ranges such as 'vm[1-8]', or a file of hosts: what --hosts takes.",
        ),
    ] = None
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            help="A hosts file, a list such as a,b or gpu[001-064], or a source such as slurm:, mpich:FILE or "
            "k8s:app=worker. --via slurm has the job's nodes itself.",
        ),
    ] = None
    lab: Annotated[
        str | None,
        typer.Option("--lab", metavar="SPEC", help="Instead: make a lab of this spec, and remove it after."),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Directory to write (a new one otherwise)."),
    ] = None
    only: Annotated[
        str | None, typer.Option("--only", metavar="STAGE", help="Stop after this stage: scan, map or plan.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Probing:
    """How round-trip times are probed, and how fast."""

    probes: ProbesOption = 100
    interval: IntervalOption = 0.001
    latency: LatencyOption = "auto"
    source_ports: SourcePortsOption = 1
    full_visits: FullVisitsOption = False
    pairs: PairsOption = None
    time: TimeOption = None
    links_at_once: LinksAtOnceOption = 0
    rate: RateOption = None
    gentle: GentleOption = False

    def fields(self) -> dict[str, Any]:
        """Fields of ScanOptions."""
        return {
            "probes_per_visit": self.probes,
            "interval_s": self.interval,
            "links_at_once": self.links_at_once,
            "latency": self.latency,
            "source_ports": self.source_ports,
            **({"precision_s": 0.0} if self.full_visits else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is measured in addition to round-trip times."""

    measure: MeasureOption = "rtt"
    trace: TraceOption = None
    goodput: GoodputOption = None
    goodput_seconds: GoodputSecondsOption = None
    size: SizeOption = None
    streams: StreamsOption = None

    def measuring(self, probing: Probing) -> Measuring:
        """Raises InputError."""
        from netprobe.pipeline.scanning.measuring import parse_measuring

        return parse_measuring(**asdict(self), pairs=probing.pairs, time=probing.time)


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """How the map forms its groups."""

    groups: GroupsOption = "natural"
    k: KOption = None
    elasticity: ElasticityOption = 2.0
    method: MethodOption = "ensemble"
    alpha: AlphaOption = None
    like: LikeOption = None

    def options(self) -> MapOptions:
        """With the map of ``--like``, which is read here. Raises InputError and DocumentError."""
        from netprobe.cli.commands.mapping import map_options
        from netprobe.core.documents.document import load_document
        from netprobe.core.documents.map import Map

        words = asdict(self)
        like = words.pop("like")
        options: MapOptions = map_options(**words)
        return options if like is None else replace(options, like=load_document(Map, like))


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """What the order of the ranks is for."""

    algorithm: AlgorithmOption = "ring"
    objective: ObjectiveOption = "sum"
    root: RootOption = None

    def fields(self) -> dict[str, Any]:
        """Fields of ChainOptions. Raises InputError."""
        from netprobe.cli.commands.plan import check_objective

        return asdict(self) | {"objective": check_objective(self.objective)}
