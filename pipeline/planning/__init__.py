"""map -> plan: orders, predictions, and costs on readings held out."""
