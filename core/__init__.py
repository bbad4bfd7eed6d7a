"""The vocabulary every other folder shares: hosts, matrices, documents, errors. Imports nothing of ours."""
