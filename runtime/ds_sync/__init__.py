"""Training by divide-and-shuffle synchronisation (Wang et al., *DS-Sync*, sections III and V-A).

world.py        which host of the plan each rank is on; the errors
costs.py        which hosts and uplinks are contended, by the times of past averages; the pattern for that
groups.py       process groups, and averages in them; who is missing when one fails
buckets.py      parameters as flat buffers, in one order on all ranks
finish.py       the last average, and statistics of batch normalisation
trainer.py      DSSync
"""
