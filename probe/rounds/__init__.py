"""Which links are measured next, and which of them at the same time."""
