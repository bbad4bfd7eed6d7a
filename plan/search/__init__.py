"""Searching orders: rings, and annealing for every other algorithm. Numbers in, numbers out."""
