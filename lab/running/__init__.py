"""Running labs: made, changed, entered, removed."""
