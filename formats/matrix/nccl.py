"""A CSV of nccl-tests that were run on each pair of hosts: one line per run, the hosts as a Slurm node list.

The columns are those that the collectors of such sweeps write: ``nodes`` (``n[001,003]``), the test and the
number of GPUs per host, and bus bandwidths whose names end in ``_GBs``: 10^9 bytes a second, as nccl-tests has
them. A run has no direction: its reading counts for both. The bus bandwidth of several GPUs per host is that of all
their connections together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netprobe.core.errors import HostsError, InputError
from netprobe.core.text import one_line
from netprobe.formats.host_lists.slurm import expand_nodelist
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix, of_links
from netprobe.formats.matrix.long import check_widths, column_of, number_of, selected
from netprobe.formats.matrix.table import table_rows

NODES = "nodes"
SUFFIX = "_GBs"
# Lines that differ in one of these were not runs of the same thing.
SETTINGS = ("test", "G", "minBytes", "maxBytes")


def looks_like_nccl(header: Sequence[str]) -> bool:
    """Whether a header has node lists and a bus bandwidth."""
    return NODES in header and any(name.endswith(SUFFIX) for name in header)


def read_nccl(
    text: str, *, zeros: str, column: str | None, select: Sequence[tuple[str, str]]
) -> ForeignMatrix:
    """Readings of a sweep, both directions equal.

    column: default the average, ``avg_bus_bw_GBs``. select: (column, value) pairs that a line must have.
    Raises InputError for runs of different tests, until ``select`` leaves those of one.
    """
    rows = table_rows(text, ",")
    header = rows[0][1] if rows else []
    if not looks_like_nccl(header):
        raise InputError(f"has no header with {NODES} and a bus bandwidth (a name that ends in {SUFFIX})")
    rows = rows[1:]
    check_widths(rows, len(header))
    value = column_of(header, column or "avg_bus_bw_GBs")
    if not header[value].endswith(SUFFIX):
        raise InputError(
            f"column {one_line(header[value], 40)!r} is not a bandwidth: its name must end in {SUFFIX}"
        )
    rows = selected(rows, header, select)
    settings = {}
    for name in SETTINGS:
        if name in header:
            found = sorted({cells[header.index(name)] for _, cells in rows})
            if len(found) > 1:
                choice = one_line(" or ".join(f"--select {name}={text}" for text in found[:4]), 200)
                raise InputError(f"holds runs of different {name}: give {choice}")
            settings[name] = one_line(found[0], 60)
    nodes = column_of(header, NODES)
    index: dict[str, int] = {}
    pairs, values = [], []
    for row in rows:
        try:
            names = expand_nodelist(row[1][nodes])
        except HostsError as error:
            raise InputError(f"line {row[0]}: {error}") from None
        if len(names) != 2 or names[0] == names[1]:
            raise InputError(f"line {row[0]}: a run of {len(set(names))} hosts: each must be of a pair")
        pairs.append([index.setdefault(name, len(index)) for name in names])
        values.append(number_of(row, value))
    ends = np.array(pairs, dtype=np.int64)
    return of_links(
        list(index),
        np.concatenate([ends[:, 0], ends[:, 1]]),
        np.concatenate([ends[:, 1], ends[:, 0]]),
        np.array(values * 2),
        zeros=zeros,
        unit="GB/s",
        parameters={"column": header[value], **settings, "both_directions_alike": True},
    )
