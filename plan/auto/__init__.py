"""Schedules chosen for a network: which groups, masters, chunks and algorithm, as the simulator predicts.

    known.py           the network that a map and its capacities describe, and what they leave unknown
    master_shares.py   who adds up how much in 2LHA, so that the fullest link is least full
    candidates.py      what can be chosen: an algorithm, an order, groups, chunks, channels
    predicting.py      the time of a candidate, and a bound below it that costs little
    baselines.py       the groups that 2LHA is compared with

What forms groups and reads maps in files is wired in ``pipeline/planning``.
"""
