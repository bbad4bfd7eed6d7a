"""The worker processes that the tests of a session share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.pool import Pool

RANKS = 6


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Ranks of one world."""
    made = Pool(RANKS)
    yield made
    made.close()
