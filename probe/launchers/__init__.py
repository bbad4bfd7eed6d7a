"""Ways to start an agent on a host: ssh, exec prefixes, Slurm, Open MPI, Kubernetes, dial-back."""
