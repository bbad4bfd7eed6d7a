"""How right distances and groups are, held against the truth."""
