"""netprobe: measure the network between rented hosts, find which share a rack, and order the ranks accordingly."""

from netprobe._version import __version__

__all__ = ["__version__"]
