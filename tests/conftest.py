"""Fixtures every folder of tests may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Shared machines stall at will: a slow example is no failure.
settings.register_profile("netprobe", deadline=None, max_examples=60)
settings.load_profile("netprobe")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real matrices, logs and files that NETPROBE_DATA names; skips where it is unset."""
    folder = os.environ.get("NETPROBE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("NETPROBE_DATA names no folder of real data")
    return Path(folder)
