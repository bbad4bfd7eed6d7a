"""Scripts that a collective library runs in its own process, one on each host.

Each module is self-contained: the standard library and the library it is for, Python 3.8 and later. netprobe sends the
source of one to the hosts, so nothing of netprobe needs to be installed there.

    mpi_allreduce.py     Open MPI's MPI_Allreduce, by ctypes
    gloo_allreduce.py    Gloo's all_reduce, by torch.distributed
"""
