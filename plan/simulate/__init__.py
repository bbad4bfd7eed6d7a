"""How long schedules take on a network: latencies, and capacities that flows share max-min fairly.

    network.py     hosts, latencies, what each transfer passes and what that carries
    fair.py        max-min fair rates
    engine.py      the run, event by event
    engine_kernels.py, compiled_run.py  the same for numba to compile: thirty times as fast, equal to the last bit
    simulate.py    the way in: schedules in, times out, with an interval where capacities are uncertain

One truth: everything that predicts the time of a collective on measured capacities asks here.
"""

from netprobe.plan.simulate.network import Network
from netprobe.plan.simulate.simulate import Background, Job, Simulation, simulate

__all__ = ["Background", "Job", "Network", "Simulation", "simulate"]
