"""Hosts and links that are slower than their place explains."""
