"""ICMP echoes over a raw socket."""
