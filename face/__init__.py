"""What ``import netprobe`` offers. Thin: each function takes what a person has and calls one of ``pipeline/``."""
