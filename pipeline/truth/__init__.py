"""Scans and maps compared with where the hosts really are."""
