"""What this machine and the hosts offer netprobe, before a scan finds out."""
