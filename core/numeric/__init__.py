"""Numbers: their text in JSON, medians of large arrays, trees."""
