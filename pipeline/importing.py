"""A foreign matrix -> scan: what others measured, as a document that the stages after a scan take."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix, empty_matrix
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan, ScannedHost, VisitTable
from netprobe.core.errors import HostsError, InputError, NothingMeasuredError
from netprobe.core.hosts import Host, check_hosts, make_host
from netprobe.core.text import listed, short
from netprobe.core.units import Unit, count, unit_named
from netprobe.formats.matrix import ForeignMatrix, ReadOptions, read_matrix
from netprobe.formats.matrix.names import host_names
from netprobe.formats.matrix.read import MAX_BYTES

METHOD = "imported"
# What no network has: a sign of the wrong unit. Seconds, and bytes a second.
_PLAUSIBLE = {"rtt": (1e-9, 3600.0), "goodput": (1.0, 1e14)}
_MIXED = 1e6


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """How to take a matrix over.

    unit: as ``core.units.unit_named`` takes it; needed where the format carries none. hosts: names, labels and
    addresses: in the order of the rows for a matrix without names, by name otherwise. transposed: rows are the
    destinations.
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    unit: str | None = None
    hosts: Sequence[Host] | None = None
    transposed: bool = False


def import_matrix(path: Path, *, options: ImportOptions | None = None) -> Scan:
    """The scan document of a file that holds a matrix.

    Latencies become ``rtt_s``, bandwidths ``goodput_bytes_per_s``; the diagonal is left out. The measurement's
    method is ``imported``, its parameters name the format, the unit and the file with its SHA-256. Raises
    InputError, one line, for what is not a matrix of readings, and NothingMeasuredError for one without any.
    """
    options = options or ImportOptions()
    content = _content(path)
    try:
        read = options.read
        if options.hosts is not None:
            read = replace(read, hosts=[host.name for host in options.hosts])
        name, readings = read_matrix(content, options=read)
        readings, renamed = _named(readings)
        unit = _unit(readings, name, options.unit)
        hosts = _hosts(readings, options.hosts)
        matrices = _scaled(readings, unit.factor, transposed=options.transposed)
        warnings = [
            *readings.notes,
            *_check_values(matrices["p50"], unit, hosts),
            *_one_direction_only(matrices["p50"], hosts),
        ]
    except HostsError as error:
        raise HostsError(str(error), source=str(path)) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if np.isnan(matrices["p50"]).all():
        raise NothingMeasuredError(f"{path}: no cell holds a reading: there is nothing to import")
    measurement = Measurement(
        id=unit.quantity,
        key="rtt_s" if unit.quantity == "rtt" else "goodput_bytes_per_s",
        method=METHOD,
        unit="s" if unit.quantity == "rtt" else "bytes/s",
        statistic="p50" if unit.quantity == "rtt" else "median",
        parameters={
            "file": path.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            "format": name,
            "unit": unit.name,
            "transposed": options.transposed,
            "readings_per_link": readings.most,
            **readings.parameters,
            **({"names_as_given": dict(renamed)} if renamed else {}),
        },
    )
    if renamed:
        shown = listed([f"{short(old, 40)!r} is {short(new, 40)}" for new, old in renamed.items()], 3)
        warnings.append(
            f"names that no host can have were changed: {shown} (measurements[0].parameters.names_as_given)"
        )
    return _scan(hosts, matrices, measurement, warnings)


def _named(readings: ForeignMatrix) -> tuple[ForeignMatrix, Mapping[str, str]]:
    """The readings under names that hosts can have, and by each one that was changed what it was."""
    if readings.names is None:
        return readings, {}
    names, renamed = host_names(readings.names)
    return (replace(readings, names=tuple(names)) if renamed else readings), renamed


def _scaled(readings: ForeignMatrix, factor: float, *, transposed: bool) -> dict[str, FloatMatrix]:
    """The statistics in SI units; those that are one matrix stay one, for a large one is large."""
    made: dict[int, FloatMatrix] = {}
    for matrix in readings.statistics.values():
        if id(matrix) not in made:
            with np.errstate(over="ignore"):  # what is then infinite is refused
                made[id(matrix)] = np.asarray((matrix.T if transposed else matrix) * factor)
    return {key: made[id(matrix)] for key, matrix in readings.statistics.items()}


def _content(path: Path) -> bytes:
    if str(path) == "-":
        return _piped()
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is not a regular file")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES} bytes")
    return content


def _unit(readings: ForeignMatrix, name: str, given: str | None) -> Unit:
    """The unit the format carries, or the one that was given. Raises InputError for none, and for two."""
    unit = None if given is None else unit_named(given)
    if readings.unit is None:
        if unit is None:
            raise InputError(
                f"its format ({name}) carries no unit: give --unit, such as us, ms or s for latencies, "
                "Gbit/s or GB/s for bandwidths"
            )
        return unit
    carried = unit_named(readings.unit)
    written = readings.parameters.get("units_in_cells")
    if unit is not None and written is not None and [unit.name] != written:
        raise InputError(f"its cells carry the units {', '.join(written)}: leave --unit {given} out")
    if unit is not None and unit != carried:
        raise InputError(f"its format ({name}) carries the unit {carried.name}: leave --unit {given} out")
    return carried


def _hosts(readings: ForeignMatrix, given: Sequence[Host] | None) -> list[Host]:
    """Hosts in the order of the rows. Raises InputError where the names or their number differ."""
    size = len(readings.values)
    if readings.names is None:
        if given is None:
            return [make_host(f"h{i}") for i in range(size)]
        if len(given) != size:
            raise InputError(f"has {size} rows without names, and there are {len(given)} hosts to name them")
        return list(given)
    if given is not None:
        known = {host.name: host for host in given}
        missing = sorted(set(readings.names) - set(known))
        if missing:
            raise InputError(f"host {missing[0]!r} of the matrix is not one of the {len(known)} hosts given")
        return [known[name] for name in readings.names]
    return list(
        check_hosts(
            [
                make_host(
                    name,
                    address=readings.addresses.get(name),
                    labels=dict(readings.labels.get(name, {})),
                )
                for name in readings.names
            ]
        )
    )


def _check_values(values: FloatMatrix, unit: Unit, hosts: Sequence[Host]) -> list[str]:
    """Warnings on what is there. Raises InputError for values that no network has."""
    low, high = _PLAUSIBLE[unit.quantity]
    rows, columns = np.nonzero((values < low) | (values > high))
    what = "a round trip" if unit.quantity == "rtt" else "a goodput"
    if len(rows):
        src, dst = short(hosts[rows[0]].name), short(hosts[columns[0]].name)
        value, shown = values[rows[0], columns[0]], "s" if unit.quantity == "rtt" else "B/s"
        raise InputError(
            f"the reading from {src!r} to {dst!r} is {value:.3g} {shown}, which is not {what}: "
            f"is the unit {unit.name}?"
        )
    known = values[~np.isnan(values)]
    if known.size and known.max() > _MIXED * known.min():
        return [
            f"the largest reading is {known.max() / known.min():.0e} times the least: "
            "the matrix may hold numbers of different units"
        ]
    return []


def _one_direction_only(values: FloatMatrix, hosts: Sequence[Host]) -> list[str]:
    """A warning where pairs have one reading: a round trip is the same both ways, and nothing else need be."""
    there = ~np.isnan(values)
    links = np.argwhere(there & ~there.T)
    if not len(links):
        return []
    first = ", ".join(f"{short(hosts[src].name)} to {short(hosts[dst].name)}" for src, dst in links[:3])
    shown = f"{first} .." if len(links) > 3 else first
    return [
        f"{count(len(links), 'pair')} with a reading in one direction only ({shown}): it counts for both, which is "
        "right for round trips; of one-way times and of goodput, measure the way back too"
    ]


def _scan(
    hosts: Sequence[Host],
    matrices: dict[str, FloatMatrix],
    measurement: Measurement,
    warnings: list[str],
) -> Scan:
    size = len(hosts)
    values = matrices["p50"]
    there = ~np.isnan(values)
    links, found = size * (size - 1), int(there.sum())
    per_host = there.sum(axis=0) + there.sum(axis=1)
    reason = f"imported from {measurement.parameters['file']}"
    if found < links:
        reason += f": {links - found} of {links} links have no reading"
    nothing = empty_matrix(size)
    is_rtt = measurement.id == "rtt"
    return Scan(
        status="ok" if found == links else "partial",
        reason=reason,
        hosts=[_scanned(host, int(own), 2 * (size - 1)) for host, own in zip(hosts, per_host)],
        measurements=[measurement],
        rtt_s=RttStatistics(**{key: matrix if is_rtt else nothing for key, matrix in matrices.items()}),
        loss_ratio=nothing,
        ipdv_s=nothing,
        goodput_bytes_per_s={} if is_rtt else {measurement.id: values},
        warnings=warnings,
        visits=VisitTable.of(()),
        rounds=0,
        duration_s=0.0,
    )


def _scanned(host: Host, found: int, links: int) -> ScannedHost:
    if found == links:
        return ScannedHost(**host.model_dump())
    reason = f"{links - found} of its {links} links have no reading in the imported matrix"
    return ScannedHost(**host.model_dump(), status="partial", reason=reason)


def _piped() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("nothing is piped into standard input: ... | netprobe import matrix -")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InputError(f"standard input: larger than {MAX_BYTES} bytes")
    return content
