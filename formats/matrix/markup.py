"""Tables that are marked up for people: Markdown, frames of characters as databases and terminals print them, HTML.

Each becomes rows of cells, the same as those of a CSV. A text with several tables is refused: which is the
matrix is not guessed.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from netprobe.core.errors import InputError
from netprobe.core.hosts import text_lines
from netprobe.formats.matrix.numbers import Row

_RULE = re.compile(r"\s*[|+]?\s*:?-{2,}:?\s*(?:[|+]\s*:?-{2,}:?\s*)+[|+]?\s*")
_EDGES = str.maketrans({"│": "|", "┃": "|", "║": "|", "┆": "|", "┊": "|"})
_FRAME = re.compile(
    r"[\s─━═┄┈┌┐└┘├┤┬┴┼╭╮╰╯╞╡╪╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋┡┩╇╈╤╧╟╢╫-]*[─━═┄┈][\s─━═┄┈┌┐└┘├┤┬┴┼╭╮╰╯╞╡╪╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋┡┩╇╈╤╧╟╢╫]*"
)
_STRESS = re.compile(r"(\*\*|__|\*|`|~~)(?=\S)(.*?\S)\1")
_LINK = re.compile(r"\[([^\]]{1,200})\]\([^)\s]{0,500}\)")
_PIPE = re.compile(r"(?<!\\)\|")
MAX_CELLS = 1 << 25


def looks_like_markdown(text: str) -> bool:
    """Whether a line is the rule below a head (``| --- | --- |``), or of a frame, and lines have bars."""
    lines = _lines(text)
    return any(_is_rule(line) for line in lines) and any("|" in line and not _is_rule(line) for line in lines)


def markdown_rows(text: str) -> list[Row]:
    """The rows of the only table. Raises InputError for none, and for several."""
    tables: list[list[Row]] = [[]]
    for number, line in enumerate(_lines(text), start=1):
        if _is_rule(line):
            continue
        if "|" in line:
            tables[-1].append((number, _cells(line)))
        elif tables[-1]:
            tables.append([])
    return _only([table for table in tables if table])


def _lines(text: str) -> list[str]:
    return [line.translate(_EDGES) for line in text_lines(text)]


def _is_rule(line: str) -> bool:
    return bool(_RULE.fullmatch(line) or (line.strip() and _FRAME.fullmatch(line)))


def _cells(line: str) -> list[str]:
    line = line.strip()
    cells = _PIPE.split(line)
    if line.startswith("|"):
        cells = cells[1:]
    if len(cells) > 1 and cells[-1].strip() == "" and line.endswith("|"):
        cells = cells[:-1]
    return [_bare(text) for text in cells]


def _bare(text: str) -> str:
    text = _LINK.sub(r"\1", text.strip().replace("\\|", "|"))
    if text in ("*", "**", "__"):
        return text
    return _STRESS.sub(r"\2", text).replace("&nbsp;", " ").strip()


def looks_like_html(text: str) -> bool:
    """Whether a text has a table of HTML."""
    return re.search(r"<table[\s>]", text, re.IGNORECASE) is not None


def html_rows(text: str) -> list[Row]:
    """The rows of the only table. Raises InputError for none, for several, and for cells that span others."""
    reader = _Tables()
    reader.feed(text)
    reader.close()
    reader.end_table()
    return _only([table for table in reader.tables if table])


class _Tables(HTMLParser):
    """Collects cells. Ends of cells and rows may be left out, as HTML allows."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[Row]] = []
        self._rows: list[Row] | None = None
        self._cell: list[str] | None = None
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            if self._rows is not None:
                raise InputError(
                    f"line {self.getpos()[0]}: a table inside a table: keep the one with the numbers"
                )
            self._rows = []
        elif self._rows is None:
            return
        elif tag == "tr":
            self._end_cell()
            self._rows.append((self.getpos()[0], []))
        elif tag in ("td", "th"):
            self._end_cell()
            if not self._rows:
                self._rows.append((self.getpos()[0], []))
            if any(name in ("colspan", "rowspan") and value not in (None, "", "1") for name, value in attrs):
                raise InputError(
                    f"line {self.getpos()[0]}: a cell that spans several: remove its row, or give a plain table"
                )
            self._cell = []
        elif tag in ("script", "style"):
            self._hidden = True
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self.end_table()
        elif tag in ("td", "th", "tr"):
            self._end_cell()
        elif tag in ("script", "style"):
            self._hidden = False

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._hidden:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is not None and self._rows:
            self._rows[-1][1].append(" ".join("".join(self._cell).split()))
        self._cell = None

    def end_table(self) -> None:
        """Also at the end of the text, for a table that is never closed."""
        self._end_cell()
        if self._rows is not None:
            self.tables.append([row for row in self._rows if row[1]])
        self._rows = None


def _only(tables: list[list[Row]]) -> list[Row]:
    if not tables:
        raise InputError("has no table with cells")
    if len(tables) > 1:
        places = ", ".join(str(table[0][0]) for table in tables[:8])
        raise InputError(f"holds {len(tables)} tables (lines {places}): keep the one to import")
    return tables[0]
