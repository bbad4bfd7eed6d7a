"""The distance matrix as clustering sees it: pairs, log distances, and which pairs were measured."""
