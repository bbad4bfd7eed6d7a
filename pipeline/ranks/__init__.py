"""Where the ranks of a running job are, held against a plan."""
