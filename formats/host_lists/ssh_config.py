"""Hosts that ssh_config names: ``ssh-config:`` for all, ``ssh-config:gpu-*`` for those of a pattern.

The names of ``Host`` lines are hosts unless they hold a wildcard or a negation; the order is that of the file, with
what ``Include`` brings in its place. ``Match`` blocks name no hosts. The target is the name, which ssh looks up itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from netprobe.core.errors import HostsError
from netprobe.core.hosts import Host, check_hosts, make_host
from netprobe.core.naming import split_list

MOST_DEPTH, MOST_FILES = 16, 256
_LINE = re.compile(r"\s*(host|include)(?:\s*=\s*|\s+)(.*)", re.IGNORECASE)


def ssh_config_hosts(wanted: str, read: Callable[[str], str], *, home: Path) -> tuple[Host, ...]:
    """``[FILE:]PATTERN,...`` -> hosts; the file of the user is ~/.ssh/config. Raises HostsError.

    ``read`` gives the text of a file, or raises HostsError.
    """
    path = home / ".ssh" / "config"
    file, colon, patterns = wanted.partition(":")
    if colon or "/" in wanted or (wanted and Path(wanted).is_file()):
        path = Path(file).expanduser()
        wanted = patterns
    names = list(dict.fromkeys(_names(path, read, home / ".ssh", [0], 0)))
    chosen = [name for name in names if _is_chosen(name, split_list(wanted))]
    if not chosen:
        some = f" (it has {', '.join(names[:8])}{' ..' if len(names) > 8 else ''})" if names else ""
        which = f" that matches {wanted[:60]!r}{some}" if wanted else ""
        raise HostsError(f"no Host{which}: names without wildcards are needed", source=str(path))
    return check_hosts([make_host(name, source=str(path)) for name in chosen], source=str(path))


def _is_chosen(name: str, patterns: list[str]) -> bool:
    """As in a Host line of ssh_config: one pattern matches, and no negated one does."""
    no = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    yes = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    return any(fnmatchcase(name, p) for p in yes) and not any(fnmatchcase(name, p) for p in no)


def _names(path: Path, read: Callable[[str], str], base: Path, files: list[int], depth: int) -> Iterator[str]:
    files[0] += 1
    if depth > MOST_DEPTH or files[0] > MOST_FILES:
        raise HostsError("Include goes too deep, or in a circle", source=str(path))
    for number, line in enumerate(read(str(path)).splitlines(), start=1):
        match = _LINE.match(line)
        if match is None:
            continue
        try:
            words = shlex.split(match[2], comments=True)
        except ValueError:
            raise HostsError("unbalanced quotes", source=str(path), line=number) from None
        for word in words:
            if match[1].lower() == "host":
                if not set(word) & set("*?!"):
                    yield word
                continue
            for included in _included(word, base):
                yield from _names(included, read, base, files, depth + 1)


def _included(word: str, base: Path) -> list[Path]:
    place = Path(word).expanduser() if word.startswith("~") else Path(word)
    pattern = str(place if place.is_absolute() else base / place).lstrip("/")
    try:
        return sorted(found for found in Path("/").glob(pattern) if found.is_file())
    except (OSError, ValueError, NotImplementedError, IndexError):
        return []
