"""Hosts as batch systems, inventories and clusters list them: read only.

slurm.py             node lists of Slurm (n[01-16]), and the hosts of a Slurm job
pbs.py               the nodefile of a PBS job
lsf.py               the hosts of an LSF job
ansible.py           INI inventories of Ansible (ansible_groups.py, ansible_ranges.py: parts of it)
kubernetes_pods.py   pods, as kubectl lists them
"""
