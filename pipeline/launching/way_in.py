"""How the hosts of a plan are reached again: as its scan came in."""

from __future__ import annotations

import shlex
from pathlib import Path

from netprobe.core.errors import InputError, NetprobeError
from netprobe.pipeline import files
from netprobe.probe.launchers.via import VIAS
from netprobe.probe.records.journal import read_journal


def way_in(given: str | None, folder: Path) -> str:
    """``--via`` as it was given, or the scan's, whose journal in the plan's folder says it; ssh where nothing does.

    A template is never taken from a file, which others may have written: it would be run. Raises InputError for it.
    """
    if given is not None:
        return given
    journal = folder / files.JOURNAL
    try:
        recorded = read_journal(journal).via if journal.is_file() else None
    except (OSError, NetprobeError):
        recorded = None
    if recorded is None or recorded in VIAS:
        return recorded or "ssh"
    raise InputError(
        f"the scan reached its hosts by --via {shlex.quote(recorded)}, and a template is never taken from a file, for "
        "it would be run: give --via again (--via ssh if it is ssh now)"
    )
