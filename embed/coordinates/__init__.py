"""Coordinates fitted to distances: where the fit starts, the fit, and the array library it runs on."""
