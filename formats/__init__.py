"""Other people's formats, in and out. A format is one file of pure functions, text in and text out.

format.py      what a format is: the record that each format's module ends with
registry.py    the list of formats, and how to find one by name
load.py        hosts from what --hosts takes: a file, a list, or a source such as mpich:FILE or slurm:
detect.py      which format a text is in; refused where two formats would give different hosts
hostfiles/     hosts in rank order, as launchers read them: Open MPI, MPICH, Slurm, torchrun, DeepSpeed, ...
host_lists/    hosts as batch systems and inventories list them: Slurm, PBS, LSF, Ansible, Kubernetes pods
schedules/     schedules as others run or draw them: MSCCL XML, action lists, SVG
topologies/    where hosts are: Slurm's topology files, Kubernetes labels, topograph, DLRover
rank_output/   a program whose ranks say where they run, and the reader of what it printed
matrix/        matrices of latency or bandwidth that others measured
kubernetes_manifest.py   pods and a Job that scan a Kubernetes cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netprobe.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from netprobe.formats.detect import read_hosts_text
    from netprobe.formats.format import Format, TopologyFormat
    from netprobe.formats.host_lists.ansible import read_ansible_inventory
    from netprobe.formats.host_lists.lsf import lsf_hosts, read_lsf_counts, read_lsf_hostfile, read_lsf_list
    from netprobe.formats.host_lists.pbs import pbs_hosts, read_pbs_nodefile
    from netprobe.formats.host_lists.slurm import expand_nodelist, read_slurm_nodelist, slurm_hosts
    from netprobe.formats.hostfiles.deepspeed import read_deepspeed_hostfile, write_deepspeed_hostfile
    from netprobe.formats.hostfiles.mpich import (
        mpich_command,
        read_mpich_machinefile,
        write_mpich_machinefile,
    )
    from netprobe.formats.hostfiles.openmpi import (
        openmpi_command,
        openmpi_ranks,
        read_openmpi_hostfile,
        write_openmpi_hostfile,
    )
    from netprobe.formats.hostfiles.plain import read_plain_list, write_plain_list
    from netprobe.formats.hostfiles.ranks import slots_of
    from netprobe.formats.load import input_files, load_hosts
    from netprobe.formats.registry import (
        FORMATS,
        SCHEDULE_FORMATS,
        TOPOLOGY_FORMATS,
        exported_names,
        format_named,
        schedule_format_named,
        topology_format_named,
        writer_named,
    )

__all__ = [
    "FORMATS",
    "SCHEDULE_FORMATS",
    "TOPOLOGY_FORMATS",
    "Format",
    "TopologyFormat",
    "expand_nodelist",
    "exported_names",
    "format_named",
    "input_files",
    "load_hosts",
    "lsf_hosts",
    "mpich_command",
    "openmpi_command",
    "openmpi_ranks",
    "pbs_hosts",
    "read_ansible_inventory",
    "read_deepspeed_hostfile",
    "read_hosts_text",
    "read_lsf_counts",
    "read_lsf_hostfile",
    "read_lsf_list",
    "read_mpich_machinefile",
    "read_openmpi_hostfile",
    "read_pbs_nodefile",
    "read_plain_list",
    "read_slurm_nodelist",
    "schedule_format_named",
    "slots_of",
    "slurm_hosts",
    "topology_format_named",
    "write_deepspeed_hostfile",
    "write_mpich_machinefile",
    "write_openmpi_hostfile",
    "write_plain_list",
    "writer_named",
]

__getattr__ = lazy_names(
    __name__,
    {
        "detect": "read_hosts_text",
        "format": "Format TopologyFormat",
        "host_lists.ansible": "read_ansible_inventory",
        "host_lists.lsf": "lsf_hosts read_lsf_counts read_lsf_hostfile read_lsf_list",
        "host_lists.pbs": "pbs_hosts read_pbs_nodefile",
        "host_lists.slurm": "expand_nodelist read_slurm_nodelist slurm_hosts",
        "hostfiles.deepspeed": "read_deepspeed_hostfile write_deepspeed_hostfile",
        "hostfiles.mpich": "mpich_command read_mpich_machinefile write_mpich_machinefile",
        "hostfiles.openmpi": "openmpi_command openmpi_ranks read_openmpi_hostfile write_openmpi_hostfile",
        "hostfiles.plain": "read_plain_list write_plain_list",
        "hostfiles.ranks": "slots_of",
        "load": "input_files load_hosts",
        "registry": "FORMATS SCHEDULE_FORMATS TOPOLOGY_FORMATS exported_names format_named "
        "schedule_format_named topology_format_named writer_named",
    },
)
