"""TCP flows between hosts, any number at once."""
