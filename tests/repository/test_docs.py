"""The documentation leads where it says: links, anchors, paths of files, the index of pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repository.project import ROOT, files_of_project, folders_of_setup

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def anchors_of(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub makes them."""
    text = CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@each_page
def test_each_relative_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors_of(path)):
            dead.append(link)
    assert dead == []


@each_page
def test_each_path_of_the_project_that_a_page_names_exists(page: Path) -> None:
    folders = {*folders_of_setup(), "docs", "tests", "bench", "scripts", "netprobe"}
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    paths = {name for name in named if "/" in name and name.partition("/")[0] in folders}
    assert sorted(name for name in paths if not (ROOT / name).exists()) == []


def test_each_page_that_the_code_names_exists() -> None:
    code = [path for path in files_of_project() if path.suffix in (".py", ".sh", ".c", ".h", ".yaml")]
    named = {
        name for path in code for name in re.findall(r"docs/[\w-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_each_page_that_a_message_tells_to_print_is_installed() -> None:
    code = [
        path
        for path in files_of_project()
        if path.suffix == ".py" and "tests" not in path.relative_to(ROOT).parts
    ]
    text = " ".join(path.read_text(encoding="utf-8") for path in code)
    named = set(re.findall(r"netprobe docs ([a-z][\w-]*)", text))
    assert {"launchers", "planning"} <= named
    assert sorted(name for name in named if not (ROOT / "docs" / f"{name}.md").exists()) == []


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    pages = {page for page in index.parent.rglob("*.md") if page != index}
    assert sorted(page.relative_to(ROOT).as_posix() for page in pages - listed) == []
