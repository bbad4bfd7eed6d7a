"""What hosts and uplinks carry, by several flows at once: which flows, running them, and what they show.

``experiments.py`` says which flows run together, ``run.py`` runs them on a fleet, ``estimate.py`` makes
capacities of resources of what they got. What one flow is, and how many run at a common moment, is flows.py.
"""
