"""DS-Sync: averaging groups that change from iteration to iteration, so that no contended link holds all hosts up.

    patterns.py     who averages with whom, iteration by iteration
    consensus.py    the proof that averages spread to all hosts, and how fast
    costs.py        how long an iteration takes
    document.py     plans of kind ``ds_sync``

Wang et al., *DS-Sync: Addressing Network Bottlenecks with Divide-and-Shuffle Synchronization for Distributed DNN
Training*; its holes are closed here, each where it is.
"""
