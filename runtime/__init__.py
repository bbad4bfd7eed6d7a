"""What runs inside a job.

    scripts/    stand-alone scripts, one process on each host, each for one collective library

A library for training (an executor of plans, a hook, an optimizer) gets its own folder here, next to scripts/.
Nothing in scripts/ imports it.
"""
