"""Other people's formats, in and out. A format is one file of pure functions, text in and text out.

Hosts and their order are here; slurm_topology.py reads where hosts stand, matrix/ what was measured between them.

registry.py   names to writers, readers and commands
load.py       hosts from what --hosts takes: a file, a list, or a source such as mpich:FILE or slurm:
detect.py     which format a text is in, refused where two formats would give different hosts

openmpi.py    hostfiles of Open MPI's mpirun, and its command line
mpich.py      machinefiles of MPICH and Intel MPI, and their command line
deepspeed.py  hostfiles of DeepSpeed
plain.py      one host a line
openmpi_rankfile.py, slurm_hostfile.py, horovod.py, torchrun.py   the same of Open MPI's rankfiles, srun, ..
rank_map.py   host, rank and local rank as JSON
ray_bundles.py, dlrover.py, topograph.py   JSON for Ray, DLRover and what reads topograph's output
rank_program.py, rank_lines.py   a program whose ranks say where they run, its commands, and what it printed
kubernetes_labels.py   kubectl commands that label pods and nodes with ranks, and nodes with groups
slurm_topology_yaml.py   the groups as Slurm's topology.yaml; slurm_topology.py writes topology.conf too
slurm.py      node lists of Slurm, and its job's hosts
pbs.py        the nodefile of a PBS job
lsf.py        the hosts of an LSF job
ansible.py    INI inventories (ansible_groups.py: groups and variables; ansible_ranges.py: names)

ranks.py      how many ranks each host gets, for everything that is written
repeated.py   hosts listed once a slot, for batch systems
"""

from netprobe.formats.detect import read_hosts_text
from netprobe.formats.host_lists.ansible import read_ansible_inventory
from netprobe.formats.host_lists.lsf import lsf_hosts, read_lsf_counts, read_lsf_hostfile, read_lsf_list
from netprobe.formats.host_lists.pbs import pbs_hosts, read_pbs_nodefile
from netprobe.formats.host_lists.slurm import expand_nodelist, read_slurm_nodelist, slurm_hosts
from netprobe.formats.hostfiles.deepspeed import read_deepspeed_hostfile, write_deepspeed_hostfile
from netprobe.formats.hostfiles.mpich import mpich_command, read_mpich_machinefile, write_mpich_machinefile
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
    TOPOLOGY_FORMATS,
    Format,
    TopologyFormat,
    exported_names,
    format_named,
    topology_format_named,
    writer_named,
)

__all__ = [
    "FORMATS",
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
    "slots_of",
    "slurm_hosts",
    "topology_format_named",
    "write_deepspeed_hostfile",
    "write_mpich_machinefile",
    "write_openmpi_hostfile",
    "write_plain_list",
    "writer_named",
]
