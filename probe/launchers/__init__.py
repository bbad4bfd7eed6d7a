"""Start an agent on each host, and give the controller a byte channel to it.

launch.py          the protocols Launcher and Channel
via.py             the launcher of a ``--via``
bootstrap.py       the command and the standard input that start an agent
exec_launcher.py   one process a host: any exec prefix, and this machine
ssh.py             the OpenSSH client
kubectl.py         ``kubectl exec`` into pods
kubectl_errors.py  errors of kubectl, with what to do
mpi.py             Open MPI's ``mpirun``
slurm.py           ``srun`` inside a Slurm allocation
dial_back.py       one command starts all agents, which connect back
listener.py        the TCP port for agents that connect back
listen_address.py  the address of that port
process.py         a channel over one child process
shared_process.py  the channels of agents that one command started
child.py           start, bounded output and end of child processes
diagnose.py        one line of error from a program's output
"""
