"""Texts and tables as plain text: nothing in them that a terminal would interpret."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netprobe.core.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def plain(part: RenderableType) -> RenderableType:
    """The same without characters that a terminal would interpret, from any source.

    Colours are rich's own, and come later.
    """
    if isinstance(part, str):
        return printable(part, keep="\n")
    from rich.console import Group
    from rich.segment import Segment, Segments

    class Plain:
        def __rich_console__(self, console: Any, options: Any) -> Any:
            segments = console.render(part, options)
            yield Segments([Segment(printable(text, keep="\n"), style) for text, style, _ in segments])

    return Group(Plain())


def text_of(parts: Sequence[RenderableType], *, width: int) -> str:
    """The parts one below the other, tables at most ``width`` columns wide, without colours."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None,
        soft_wrap=False,
    )
    for part in parts:
        console.print(plain(part), soft_wrap=isinstance(part, str))
    return stream.getvalue()
