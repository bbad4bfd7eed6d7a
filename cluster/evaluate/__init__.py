"""How right distances and groups are, compared with the truth."""
