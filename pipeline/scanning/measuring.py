"""What a scan measures, as its phases: each a method and a chooser, the round-trip time first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.pipeline.scanning.goodput import GoodputRequest, Watched, goodput_phases
from netprobe.probe.capacity.run import CapacityOptions
from netprobe.probe.methods.latency import latency_method
from netprobe.probe.methods.path import Path, Trace
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.rounds.budget import Budget, Budgeted, parse_budget
from netprobe.probe.rounds.chooser import RoundRobin
from netprobe.probe.scan.session import Phase

MEASURES = ("rtt", "path", "goodput", "capacity")


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """The measurements of a scan; ``goodput`` is None where it is not measured."""

    path: Trace | None = None
    """How paths are traced; None where they are not."""
    goodput: GoodputRequest | None = None
    budget: Budget | None = None
    """Of the round-trip times; None probes every pair."""
    capacity: CapacityOptions | None = None
    """Measured after the map, in its groups; None where it is not."""
    words: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The arguments of ``parse_measuring`` that it was made of, for a journal; empty when made otherwise."""


def parse_measuring(
    measure: str | None = None,
    *,
    trace: str | None = None,
    goodput: str | None = None,
    goodput_seconds: float | None = None,
    size: str | None = None,
    streams: str | None = None,
    pairs: str | None = None,
    time: str | None = None,
) -> Measuring:
    """``rtt`` and any of ``path``, ``goodput``, ``capacity``, and the options of each. Raises InputError."""
    words = {
        "measure": measure, "trace": trace, "goodput": goodput, "goodput_seconds": goodput_seconds,
        "size": size, "streams": streams, "pairs": pairs, "time": time,
    }  # fmt: skip
    measure = "rtt" if measure is None else measure
    budget = parse_budget(pairs, time)
    measures = [part.strip() for part in measure.split(",")]
    unknown = [part for part in measures if part not in MEASURES]
    if unknown:
        raise InputError(
            f"--measure {measure!r}: {unknown[0]!r} is not one of {', '.join(MEASURES)}, of which some may be given, "
            f"such as rtt,goodput{meant(unknown[0], MEASURES)}"
        )
    if len(set(measures)) != len(measures):
        raise InputError(f"--measure {measure!r}: each of {', '.join(MEASURES)} may be given once")
    if "rtt" not in measures:
        raise InputError(
            f"--measure {measure!r}: rtt is needed, which says what may be tested at once: "
            f"give --measure rtt,{measure}"
        )
    if "path" not in measures and trace is not None:
        raise InputError("--trace is of paths: give --measure rtt,path as well")
    if budget is not None and "path" in measures:
        raise InputError("--pairs and --time are of round-trip times: paths are traced between all hosts")
    path: Trace | None = (trace or "udp") if "path" in measures else None  # type: ignore[assignment]
    options = {
        "--goodput": goodput, "--goodput-seconds": goodput_seconds, "--size": size, "--streams": streams
    }  # fmt: skip
    given = [name for name, value in options.items() if value is not None]
    request = None
    if "goodput" in measures:
        request = GoodputRequest.parse(
            way=goodput or "auto", seconds=goodput_seconds, sizes=size, streams=streams
        )
    elif given:
        verb = "is" if len(given) == 1 else "are"
        raise InputError(f"{' and '.join(given)} {verb} of goodput: give --measure rtt,goodput as well")
    return Measuring(
        path=path,
        goodput=request,
        budget=budget,
        capacity=CapacityOptions() if "capacity" in measures else None,
        words=words,
    )


def phases_for(options: ScanOptions, measuring: Measuring | None = None) -> list[Phase]:
    """The phases of a scan. Raises InputError for what contradicts itself."""
    budget = None if measuring is None else measuring.budget
    watched = Watched(RoundRobin() if budget is None else Budgeted(budget, seed=options.seed))
    phases = [Phase(method=latency_method(options), chooser=watched)]
    if measuring is not None and measuring.path is not None:
        phases.append(Phase(method=Path(options, measuring.path), chooser=RoundRobin()))
    if measuring is not None and measuring.goodput is not None:
        phases += goodput_phases(options, measuring.goodput, watched)
    return phases


def measured_ids(options: ScanOptions, measuring: Measuring | None = None) -> list[str]:
    """The ids of a scan's measurements, in order."""
    return [phase.method.measurement.id for phase in phases_for(options, measuring)]
