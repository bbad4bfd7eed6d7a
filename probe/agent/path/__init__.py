"""Hops and path MTU."""
