"""Scripts that a real library runs in its own process, one on each host. Each stands alone."""
