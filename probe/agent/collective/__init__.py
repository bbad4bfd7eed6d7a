"""The interpreter of a rank's actions over plain TCP."""
