"""A job started on a plan's hosts, in the plan's order: what runs where, and its processes from start to end."""
