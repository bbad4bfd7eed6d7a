"""Temporary files, and one line where this machine has no room for them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from netprobe.core.errors import PlatformError


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is removed afterwards. Raises PlatformError where none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="netprobe-", ignore_cleanup_errors=True)
    except OSError as error:
        raise _none(error) from None
    with made as folder:
        yield Path(folder)


def scratch_file() -> IO[bytes]:
    """A file without a name, removed when it is closed. Raises PlatformError where none can be made."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _none(error) from None


def _none(error: OSError) -> PlatformError:
    return PlatformError(
        f"no temporary file can be made here: {error.strerror}: set TMPDIR to a folder that can be written to"
    )
