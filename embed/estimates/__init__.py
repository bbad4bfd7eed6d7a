"""Estimates of every distance, each by one model: blocks, trees, kriging; and what single hosts add."""
