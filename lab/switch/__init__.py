"""The switch that joins the hosts of a lab: a C program, compiled and started here."""
