"""Hosts as batch systems, inventories and clusters list them."""
