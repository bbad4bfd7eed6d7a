"""The scripts of runtime/scripts/ as text, and the command that runs one where nothing of netprobe is installed."""

from __future__ import annotations

import base64
import shlex
import zlib
from importlib.resources import files

_FROM_INPUT = (
    "import sys;t=sys.stdin.readline;exec(compile(''.join(t() for _ in range(int(t()))),'netprobe','exec'))"
)


def script(name: str) -> str:
    """The source of ``runtime/scripts/NAME.py``."""
    return files("netprobe.runtime.scripts").joinpath(f"{name}.py").read_text(encoding="utf-8")


def in_arguments(name: str, python: str = "python3") -> list[str]:
    """An argv that holds the script itself: for launchers that give standard input to one rank only."""
    packed = base64.b64encode(zlib.compress(script(name).encode("utf-8"), 9)).decode("ascii")
    code = (
        f"import base64,zlib;exec(compile(zlib.decompress(base64.b64decode('{packed}')),'netprobe','exec'))"
    )
    return [*shlex.split(python), "-B", "-c", code]


def over_input(name: str, python: str = "python3") -> tuple[list[str], bytes]:
    """An argv that reads the script from standard input first, and what to write there."""
    text = script(name)
    return [*shlex.split(python), "-B", "-c", _FROM_INPUT], f"{text.count(chr(10))}\n{text}".encode()
