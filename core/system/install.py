"""How what is missing is installed into the very Python that runs netprobe."""

from __future__ import annotations

import shlex
import sys


def install_command(extra: str) -> str:
    """A command for a shell: another pip on the path would serve another Python."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip install 'netprobe-fleet[{extra}]'"
