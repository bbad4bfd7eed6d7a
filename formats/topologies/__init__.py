"""Where hosts are: switches, groups and labels, as schedulers read them.

slurm_topology.py        topology.conf of Slurm, read and written
slurm_block.py           the same for topology/block, written
slurm_topology_yaml.py   topology.yaml of Slurm 25.05 and later, written
slurm_yaml_reader.py     the same, read: one of its topologies
kubernetes_labels.py     kubectl commands that label pods with ranks and nodes with groups, written
topograph.py             JSON of topograph's graph engine, written
dlrover.py               node ranks and switches for DLRover's master, written
"""
