"""Numbers: their text in JSON, medians of large arrays, trees, loops compiled where numba is installed."""
