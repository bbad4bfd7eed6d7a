"""Where hosts stand: switches, racks, labels, in and out."""
