"""scan -> map: layers, groups, findings."""
