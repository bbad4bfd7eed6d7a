"""``netprobe docs PAGE``: the pages of the documentation that an install carries."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def docs(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAGE]", help="A page as it is listed, or as a message names it: docs/launchers.md."
        ),
    ] = None,
) -> None:
    """Print a page of the documentation, or without PAGE the list of them.

    In a terminal it opens in the pager (PAGER); PAGE#HEADING prints that section alone.
    """
    from netprobe.pipeline.pages import page_text, page_titles

    if page is None:
        titles = page_titles()
        width = max(map(len, titles))
        typer.echo("\n".join(f"{name:<{width}}  {title}" for name, title in titles.items()))
        return
    text = page_text(page)
    if sys.stdout.isatty():
        import pydoc

        pydoc.pager(text)
    else:
        typer.echo(text, nl=False)
