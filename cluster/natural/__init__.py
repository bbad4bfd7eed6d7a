"""Groups by evidence: how many there are, and of whatever sizes."""
