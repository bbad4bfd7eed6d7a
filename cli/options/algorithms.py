"""The names that ``--algorithm`` takes, for help: those of plan/costs, which needs numpy to say them."""

from __future__ import annotations

ALGORITHM_NAMES = (
    "ring",
    "chunked-ring",
    "halving-doubling",
    "halving-doubling-farthest-first",
    "recursive-doubling",
    "reduce-scatter",
    "bcube",
    "double-binary-tree",
    "nccl-tree",
    "binomial-tree",
)
ALGORITHMS_LISTED = ", ".join(ALGORITHM_NAMES)
