"""Ranks that say where they run: the program that asks them, and the reader of what it prints."""
