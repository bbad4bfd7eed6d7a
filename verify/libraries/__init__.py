"""A real collective library in place of the agents: Open MPI, Gloo, nccl-tests."""
