"""Labs that stand: made, changed, entered, removed."""
