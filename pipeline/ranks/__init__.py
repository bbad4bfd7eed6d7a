"""Where the ranks of a running job are, compared with a plan."""
