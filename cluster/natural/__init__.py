"""Natural groups: how many there are is decided by the evidence, and they may be of any sizes."""
