"""The description of a lab: racks, delays, rates, faults; read, checked and laid out."""
