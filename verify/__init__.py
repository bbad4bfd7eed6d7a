"""Orders against each other on the wire itself: what a plan promises, measured.

program.py     what each rank does in a collective: a list of actions, compiled from rounds
proof.py       that the actions do their collective, whatever the timing
runner.py      what can run orders in turn, and how long each took
wire.py        that runner by netprobe's own agents, over plain TCP
contest.py     two orders in turn, until their ratio is known
compare.py     the ratio and its interval
orders.py      orders at given percentiles of the predicted cost
correlate.py   whether prediction and measurement rank orders alike
library.py     a real library in its place: library_mpi.py, library_gloo.py, library_nccl.py; crew.py, its processes
"""
