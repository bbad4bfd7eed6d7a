"""A scan from start to end.

session.py    start the agents, run the phases, stop the agents, build the result
phase.py      one measurement, its chooser and its limits
scheduler.py  rounds of a running scan, with hosts that fail or hang
visiting.py   the visits of one round
estimate.py   the cost of a scan before it starts, and its pace below a rate
"""
