"""``netprobe schema``: the published JSON Schema of a document."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="scan, map, capacity, plan, verify or truth.")],
) -> None:
    """Print the JSON Schema of a kind of document."""
    from netprobe.core.errors import InputError
    from netprobe.core.text import meant
    from netprobe.pipeline.published import schemas

    known = schemas()
    if kind not in known:
        raise InputError(f"no document of kind {kind!r}: known are {', '.join(known)}{meant(kind, known)}")
    typer.echo(json.dumps(known[kind], indent=2, sort_keys=True))
