"""What the hosts say of themselves that may make a reading doubtful."""
