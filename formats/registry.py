"""The formats that netprobe writes and reads hosts from: names to pure functions, text in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host
from netprobe.formats.host_lists.ansible import read_ansible_inventory
from netprobe.formats.host_lists.lsf import read_lsf_hostfile
from netprobe.formats.host_lists.pbs import read_pbs_nodefile
from netprobe.formats.host_lists.slurm import read_slurm_nodelist
from netprobe.formats.hostfiles import (
    deepspeed,
    horovod,
    mpich,
    openmpi,
    openmpi_rankfile,
    plain,
    rank_map,
    ray_bundles,
    torchrun,
)
from netprobe.formats.hostfiles import slurm_hostfile as arbitrary
from netprobe.formats.topologies import dlrover, topograph
from netprobe.formats.topologies import kubernetes_labels as labels
from netprobe.formats.topologies import slurm_topology as tree
from netprobe.formats.topologies import slurm_topology_yaml as tree_yaml


class Writer(Protocol):
    """Hosts in rank order to text; ``slots`` is the ranks of every host, None for the hosts' own."""

    def __call__(self, hosts: Sequence[Host], *, slots: int | None = None) -> str:
        """Raises InputError for what the format cannot say."""


class Reader(Protocol):
    """Text to hosts; ``source`` names the text in errors."""

    def __call__(self, text: str, *, source: str | None = None) -> tuple[Host, ...]:
        """Raises HostsError naming the line."""


class Command(Protocol):
    """The argv under which a launcher keeps the order of a written file."""

    def __call__(self, file: str, ranks: int, program: Sequence[str] = (), /) -> list[str]:
        """``ranks`` is the sum of the slots."""


class TopologyWriter(Protocol):
    """Hosts of each group, and those in none, to text."""

    def __call__(
        self,
        groups: Mapping[str, Sequence[Host]],
        unplaced: Sequence[Host] = (),
        *,
        above: Mapping[str, str] | None = None,
    ) -> str:
        """``above``: what a group hangs on, and that in turn. Raises InputError for what the format cannot say."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One foreign format of hosts.

    ``write`` is None for a format that is only read, ``read`` for one that is only written, and ``command``
    where no command is known that keeps the order. ``write_by_node`` deals the ranks of hosts with several out in
    turn; None where the format cannot have a host's ranks apart. ``order`` says under which flags
    a launcher keeps the order of a written file, and what it does otherwise; ``file`` is the name that such a file has
    by default, each format's its own.
    """

    name: str
    summary: str
    write: Writer | None = None
    write_by_node: Writer | None = None
    read: Reader | None = None
    command: Command | None = None
    order: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class TopologyFormat:
    """One foreign format of groups; ``places`` says what reads it, and what it does not do."""

    name: str
    summary: str
    write: TopologyWriter
    places: str
    file: str


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format(
            name="openmpi",
            summary="hostfile of Open MPI's mpirun (for --map-by seq)",
            write=openmpi.write_openmpi_hostfile,
            write_by_node=partial(openmpi.write_openmpi_hostfile, by_node=True),
            read=openmpi.read_openmpi_hostfile,
            command=openmpi.openmpi_command,
            order=openmpi.ORDER,
            file="hostfile",
        ),
        Format(
            name="rankfile",
            summary="rankfile of Open MPI's mpirun, each rank bound to a core",
            write=openmpi_rankfile.write_openmpi_rankfile,
            write_by_node=partial(openmpi_rankfile.write_openmpi_rankfile, by_node=True),
            read=openmpi_rankfile.read_openmpi_rankfile,
            command=openmpi_rankfile.rankfile_command,
            order=openmpi_rankfile.ORDER,
            file="rankfile",
        ),
        Format(
            name="mpich",
            summary="machinefile of MPICH and Intel MPI",
            write=mpich.write_mpich_machinefile,
            read=mpich.read_mpich_machinefile,
            command=mpich.mpich_command,
            order=mpich.ORDER,
            file="hostfile.mpich",
        ),
        Format(
            name="deepspeed",
            summary="hostfile of DeepSpeed",
            write=deepspeed.write_deepspeed_hostfile,
            read=deepspeed.read_deepspeed_hostfile,
            order=deepspeed.ORDER,
            file="hostfile.deepspeed",
        ),
        Format(
            name="horovod",
            summary="hostfile of Horovod",
            write=horovod.write_horovod_hostfile,
            read=horovod.read_horovod_hostfile,
            command=horovod.horovod_command,
            order=horovod.ORDER,
            file="hostfile.horovod",
        ),
        Format(
            name="slurm-hostfile",
            summary="list that SLURM_HOSTFILE names (for srun --distribution=arbitrary)",
            write=arbitrary.write_slurm_hostfile,
            write_by_node=partial(arbitrary.write_slurm_hostfile, by_node=True),
            read=arbitrary.read_slurm_hostfile,
            command=arbitrary.slurm_hostfile_command,
            order=arbitrary.ORDER,
            file="hostfile.slurm",
        ),
        Format(
            name="torchrun",
            summary="the torchrun command of each host (static rendezvous)",
            write=torchrun.write_torchrun_commands,
            read=torchrun.read_torchrun_commands,
            order=torchrun.ORDER,
            file="torchrun.txt",
        ),
        Format(
            name="json",
            summary="rank map: host, rank and local rank",
            write=rank_map.write_rank_map,
            write_by_node=partial(rank_map.write_rank_map, by_node=True),
            read=rank_map.read_rank_map,
            order=rank_map.ORDER,
            file="ranks.json",
        ),
        Format(
            name="kubernetes",
            summary="kubectl commands that label pods or nodes with their ranks",
            write=labels.write_rank_labels,
            order=labels.ORDER,
            file="labels.sh",
        ),
        Format(
            name="ray",
            summary="bundles of a Ray placement group, one a rank",
            write=ray_bundles.write_ray_bundles,
            write_by_node=partial(ray_bundles.write_ray_bundles, by_node=True),
            order=ray_bundles.ORDER,
            file="ray.json",
        ),
        Format(
            name="dlrover",
            summary="node ranks as DLRover's master keeps them (JSON)",
            write=dlrover.write_dlrover_nodes,
            order=dlrover.ORDER,
            file="dlrover.json",
        ),
        Format(
            name="plain",
            summary="one host a line, in rank order",
            write=plain.write_plain_list,
            read=plain.read_plain_list,
            order=plain.ORDER,
            file="hostfile.plain",
        ),
        Format(name="slurm", summary="node list of Slurm", read=read_slurm_nodelist),
        Format(name="pbs", summary="nodefile of a PBS job", read=read_pbs_nodefile),
        Format(name="lsf", summary="host file of an LSF job", read=read_lsf_hostfile),
        Format(name="ansible", summary="Ansible inventory in INI form", read=read_ansible_inventory),
    )
}

TOPOLOGY_FORMATS: dict[str, TopologyFormat] = {
    entry.name: entry
    for entry in (
        TopologyFormat(
            name="slurm-conf",
            summary="topology.conf of Slurm (tree)",
            write=tree.write_slurm_topology,
            places=tree.PLACES,
            file="topology.conf",
        ),
        TopologyFormat(
            name="slurm-yaml",
            summary="topology.yaml of Slurm 25.05 and later (tree)",
            write=tree_yaml.write_slurm_topology_yaml,
            places=tree_yaml.PLACES,
            file="topology.yaml",
        ),
        TopologyFormat(
            name="kubernetes",
            summary="kubectl commands that label nodes with their groups",
            write=labels.write_group_labels,
            places=labels.PLACES,
            file="group-labels.sh",
        ),
        TopologyFormat(
            name="topograph",
            summary="JSON of topograph's graph engine",
            write=topograph.write_topograph_graph,
            places=topograph.PLACES,
            file="topograph.json",
        ),
        TopologyFormat(
            name="dlrover",
            summary="switches of nodes for a TopologyQuerier of DLRover (JSON)",
            write=dlrover.write_dlrover_switches,
            places=dlrover.PLACES,
            file="dlrover-switches.json",
        ),
    )
}


def format_named(name: str) -> Format:
    """The format of that name. Raises InputError listing the known ones."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name[:60]!r}: known are {', '.join(sorted(FORMATS))}")
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
        raise InputError(f"{what}: known are {written}")
    return write


def topology_format_named(name: str) -> TopologyFormat:
    """The format of groups of that name. Raises InputError listing the known ones."""
    if name not in TOPOLOGY_FORMATS:
        raise InputError(f"unknown format {name[:60]!r}: known are {', '.join(sorted(TOPOLOGY_FORMATS))}")
    return TOPOLOGY_FORMATS[name]
