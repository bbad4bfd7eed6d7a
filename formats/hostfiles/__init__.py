"""Hosts in rank order, as launchers read them."""
