"""Lower bounds: no ring through the hosts can cost less."""
