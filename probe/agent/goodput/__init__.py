"""Goodput: built-in TCP flows, and iperf3."""
