"""Compare rank orders on the wire: measure what a plan predicts.

run.py         one run: agents up, a comparison, a survey of random orders
runner.py      what can run orders in turn, and how long each took
wire.py        that runner on netprobe's own agents, over plain TCP
comparison.py  two orders in turn, until their ratio is known
ratio.py       the ratio and its confidence interval
orders.py      orders at given percentiles of the predicted cost
predict.py     the predicted cost of an order
correlate.py   whether prediction and measurement rank orders in the same way
libraries/     MPI, Gloo or NCCL in place of the agents, and the process group that runs them
"""
