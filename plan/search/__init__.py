"""Orders of low cost: rings, and annealing for every other algorithm. Numbers in, numbers out.

ring.py            the ring solver: starts, search, proof or bound
construct.py       rings to start from, neighbour lists, costs in whole units
exact.py           proven best rings of a few hosts
improve_ring.py    2-opt, Or-opt, 3-opt and kicks on one ring: kernels
ring_list.py       the ring that they change: kernels
anneal.py          one run of annealing, for algorithms that are not rings
anneal_kernels.py  the same for numba to compile
leaves.py          orders to start from: the leaves of the hierarchy of the hosts
polish.py          the best order of a few hosts, by CP-SAT
"""
