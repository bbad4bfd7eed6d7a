"""The formats that netprobe writes and reads: one line each. What a format is, its own module says."""

from __future__ import annotations

from collections.abc import Collection

from netprobe.core.errors import InputError
from netprobe.core.text import meant
from netprobe.formats.format import Format, ScheduleFormat, TopologyFormat, Writer
from netprobe.formats.host_lists import ansible_structured, lsf, pbs, slurm
from netprobe.formats.hostfiles import (
    deepspeed,
    horovod,
    mpich,
    openmpi,
    openmpi_rankfile,
    plain,
    rank_map,
    ray_bundles,
    slurm_hostfile,
    torchrun,
)
from netprobe.formats.schedules import json_actions, msccl, svg
from netprobe.formats.topologies import (
    dlrover,
    kubernetes_labels,
    slurm_block,
    slurm_topology,
    slurm_topology_yaml,
    topograph,
)

FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        openmpi.FORMAT,
        openmpi_rankfile.FORMAT,
        mpich.FORMAT,
        deepspeed.FORMAT,
        horovod.FORMAT,
        slurm_hostfile.FORMAT,
        torchrun.FORMAT,
        rank_map.FORMAT,
        kubernetes_labels.FORMAT,
        ray_bundles.FORMAT,
        dlrover.FORMAT,
        plain.FORMAT,
        slurm.FORMAT,
        pbs.FORMAT,
        lsf.FORMAT,
        ansible_structured.FORMAT,
    )
}
"""Hosts in rank order, written and read; and lists of hosts that are only read."""

TOPOLOGY_FORMATS: dict[str, TopologyFormat] = {
    entry.name: entry
    for entry in (
        slurm_topology.TOPOLOGY_FORMAT,
        slurm_topology_yaml.TOPOLOGY_FORMAT,
        slurm_block.TOPOLOGY_FORMAT,
        kubernetes_labels.TOPOLOGY_FORMAT,
        topograph.TOPOLOGY_FORMAT,
        dlrover.TOPOLOGY_FORMAT,
    )
}
"""Groups of hosts, written."""


def format_named(name: str) -> Format:
    """The format of that name. Raises InputError listing those that can be written."""
    if name not in FORMATS:
        writer_named(name)
    return FORMATS[name]


def exported_names() -> tuple[str, ...]:
    """The default names of all the files that hold an order."""
    return tuple(sorted({entry.file for entry in FORMATS.values() if entry.write is not None}))


def writer_named(name: str) -> Writer:
    """What writes the format of that name. Raises InputError listing those that are written."""
    write = FORMATS[name].write if name in FORMATS else None
    if write is None:
        written = ", ".join(sorted(entry.name for entry in FORMATS.values() if entry.write))
        what = f"format {name!r} is only read" if name in FORMATS else f"unknown format {name[:60]!r}"
        raise InputError(f"{what}: known are {written}{_meant(name)}")
    return write


def topology_format_named(name: str) -> TopologyFormat:
    """The format of groups of that name. Raises InputError listing the known ones."""
    if name not in TOPOLOGY_FORMATS:
        known = ", ".join(sorted(TOPOLOGY_FORMATS))
        hint = meant(name, TOPOLOGY_FORMATS) or _elsewhere(name)
        raise InputError(f"unknown format {name[:60]!r}: known are {known}{hint}")
    return TOPOLOGY_FORMATS[name]


SCHEDULE_FORMATS: dict[str, ScheduleFormat] = {
    entry.name: entry for entry in (msccl.SCHEDULE_FORMAT, json_actions.SCHEDULE_FORMAT, svg.SCHEDULE_FORMAT)
}
"""Schedules, written."""


def schedule_format_named(name: str) -> ScheduleFormat:
    """Raises InputError that lists the known ones."""
    if name not in SCHEDULE_FORMATS:
        known = ", ".join(SCHEDULE_FORMATS)
        hint = meant(name, SCHEDULE_FORMATS) or _elsewhere(name)
        raise InputError(f"no schedule format {name[:60]!r}: known are {known}{hint}")
    return SCHEDULE_FORMATS[name]


_ALSO = {
    "mpi": "openmpi",
    "mpirun": "openmpi",
    "ompi": "openmpi",
    "hostfile": "openmpi",
    "rank": "rankfile",
    "hydra": "mpich",
    "intelmpi": "mpich",
    "srun": "slurm-hostfile",
    "slurm": "slurm-hostfile",
    "pbs": "openmpi",
    "lsf": "openmpi",
    "pytorch": "torchrun",
    "k8s": "kubernetes",
    "text": "plain",
    "txt": "plain",
}
"""What people call a format of hosts, and its name here."""


def _meant(name: str) -> str:
    written = [entry.name for entry in FORMATS.values() if entry.write]
    return _elsewhere(name, hosts=False) or meant(name, written, others=_ALSO)


def _elsewhere(name: str, *, hosts: bool = True) -> str:
    """Which command writes the format, where it is another one."""
    written = [entry.name for entry in FORMATS.values() if entry.write]
    places: list[tuple[str, Collection[str]]] = [
        ("schedule", SCHEDULE_FORMATS),
        ("topology", TOPOLOGY_FORMATS),
        *([("hostfile", written)] if hosts else []),
    ]
    for command, formats in places:
        if name in formats:
            return f" ({name} is written by netprobe export {command})"
    return ""
