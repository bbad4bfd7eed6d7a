"""netprobe: find the racks of a rented fleet with real probes, and order the ranks to suit."""

from netprobe._version import __version__

__all__ = ["__version__"]
