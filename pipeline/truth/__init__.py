"""Scans and maps held against where the hosts really are."""
