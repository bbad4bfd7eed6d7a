"""The pages of documentation that are installed with the package, so that what messages point at can be read."""

from __future__ import annotations

import re
from importlib.resources import files

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.text import meant

_HEADING = re.compile(r"^(#+) (.*)$")


def page_names() -> list[str]:
    """Their names without ``.md``, sorted. Raises PlatformError where the install has none."""
    folder = files("netprobe") / "docs"
    names = (
        sorted(one.name[:-3] for one in folder.iterdir() if one.name.endswith(".md"))
        if folder.is_dir()
        else []
    )
    if not names:
        raise PlatformError("this install carries no pages of documentation: install netprobe again")
    return names


def page_titles() -> dict[str, str]:
    """The first heading of each page by the page's name."""
    return {name: _read(name).partition("\n")[0].lstrip("# ") for name in page_names()}


def page_text(given: str) -> str:
    """A page in Markdown. ``given`` is its name, or as messages and links have it: ``docs/launchers.md#ssh``.

    Raises InputError where there is no such page, or no such heading in it.
    """
    path, _, anchor = given.strip().partition("#")
    name = path.removeprefix("./").removeprefix("docs/").removesuffix(".md")
    known = page_names()
    if name not in known:
        raise InputError(f"no page {given!r}: known are {', '.join(known)}{meant(name, known)}")
    text = _read(name)
    return _section(text, anchor, name) if anchor else text


def _read(name: str) -> str:
    return (files("netprobe") / "docs" / f"{name}.md").read_text(encoding="utf-8")


def _section(text: str, anchor: str, name: str) -> str:
    """From the heading of this anchor to the next one that is not below it."""
    kept: list[str] = []
    level = 0
    anchors = []
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading:
            anchors.append(_anchor(heading[2]))
            if level and len(heading[1]) <= level:
                break
            if not level and anchors[-1] == anchor.lower():
                level = len(heading[1])
        if level:
            kept.append(line)
    if not kept:
        raise InputError(
            f"{name} has no heading {anchor!r}: known are {', '.join(anchors)}{meant(anchor, anchors)}"
        )
    return "".join(kept)


def _anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
