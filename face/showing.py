"""What a document or a folder holds, shown where the caller looks: a terminal, a file, or a notebook."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import Plan
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError
from netprobe.face import arguments
from netprobe.face.arguments import Place
from netprobe.pipeline.places import NAMES
from netprobe.pipeline.showing import Shown, load_shown, of_kind
from netprobe.pipeline.shown_text import shown_parts
from netprobe.report.plain import text_of


def show(what: Document | Place, *, file: TextIO | None = None) -> None:
    """Show a document, or what is in a file or a scan's folder, as ``netprobe show`` does: in a notebook as HTML,
    elsewhere as text on ``file`` (standard output). Raises InputError and DocumentError.
    """
    shown = _shown(what)
    display = _display() if file is None else None
    if display is not None:
        for document in of_kind(shown):
            display(document)
        return
    stream = sys.stdout if file is None else file
    width = shutil.get_terminal_size((100, 24)).columns
    parts = shown_parts(shown, width=width, encoding=getattr(stream, "encoding", None) or "utf-8")
    stream.write("".join(f"warning: {note}\n" for note in shown.notes) + text_of(parts, width=width))


def _shown(what: Document | Place) -> Shown:
    source = Path("-")
    if isinstance(what, Scan):
        return Shown(source=source, scan=what)
    if isinstance(what, Map):
        return Shown(source=source, map=what)
    if isinstance(what, Capacity):
        return Shown(source=source, capacity=what)
    if isinstance(what, Plan):
        return Shown(source=source, plans=((Path(NAMES["plan"]), what),))
    if isinstance(what, Verify):
        return Shown(source=source, verifies=((Path(NAMES["verify"]), what),))
    if isinstance(what, Document):
        raise InputError(f"is a {what.KIND} document, of which there is nothing to show")
    return load_shown(arguments.place(what, "what", "a document"))


def _display() -> Any:
    """What shows an object in the cell of a notebook; None elsewhere. IPython is never loaded for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display
