"""Groups of about equal sizes: constrained k-means, and PLink's square root of N."""
