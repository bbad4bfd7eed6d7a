"""How many examples a property is tested with: few every day, ten times as many in `make test-long`."""

from __future__ import annotations

import os

from hypothesis import settings

# Set by `make test-long`.
LONG = os.environ.get("NETPROBE_TESTS") == "long"


def examples(count: int) -> settings:
    """So many examples every day, for properties that the profile's number is too slow for."""
    return settings(max_examples=count * 10 if LONG else count)
