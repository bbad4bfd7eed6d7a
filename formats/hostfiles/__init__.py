"""Hosts in rank order, as launchers read them: one file a format, written and (mostly) read.

openmpi.py            hostfile of Open MPI's mpirun
openmpi_rankfile.py   rankfile of Open MPI's mpirun
mpich.py              machinefile of MPICH and Intel MPI
slurm_hostfile.py     list that SLURM_HOSTFILE names, for srun
deepspeed.py          hostfile of DeepSpeed
horovod.py            hostfile of Horovod
torchrun.py           torchrun command of each host
ray_bundles.py        bundles of a Ray placement group
rank_map.py           rank map as JSON
plain.py              one host a line

Shared by them:
ranks.py              how many ranks each host gets and where each rank goes; launcher names; comments
repeated.py           for readers: lines without comments, numbers of slots, hosts listed several times
"""
