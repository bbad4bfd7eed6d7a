"""A scan from start to end: phases, rounds, visits, the estimate of its cost."""
