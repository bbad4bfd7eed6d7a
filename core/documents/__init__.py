"""The documents of the chain, and the matrices and visits they hold."""
