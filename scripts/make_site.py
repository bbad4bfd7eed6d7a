"""Build the documentation as a site: the pages of docs/, the README, and the Python interface from its docstrings.

    python scripts/make_site.py [FOLDER]     # build/site by default; then open FOLDER/index.html in a browser

Sphinx reads a copy of the pages, at the paths that they have in the repository, so that their links hold there too. Any
warning is an error: a link to a page, a heading or a file that is not there, a page in no table of contents. Nothing
is taken from the network, neither to build the site nor to look at it. It needs the extra ``docs``.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import netprobe

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CITATION.cff", "examples", "docs")
START = "docs/index"
LINK = re.compile(r"\]\(([^)\s#]+\.md)\)")
CONFIG = {
    "project": "netprobe",
    "author": "the netprobe contributors",
    "copyright": "the netprobe contributors, MIT license",
    "version": netprobe.__version__,
    "release": netprobe.__version__,
    "extensions": ["myst_parser", "sphinx.ext.autodoc"],
    "root_doc": START,
    "html_theme": "furo",  # system fonts only
    "html_title": f"netprobe {netprobe.__version__}",
    "html_show_sourcelink": False,
    "html_copy_source": False,
    "highlight_language": "text",
    "myst_heading_anchors": 4,
    "autodoc_member_order": "bysource",
    "autodoc_typehints_format": "short",
    "suppress_warnings": ["myst.header"],
}


def contents(index: str) -> Iterator[tuple[str, list[str]]]:
    """The headings of docs/index.md, each with the pages listed under it, as paths without their ending."""
    for section in index.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        pages = [
            ("/docs/" + name).replace("/docs/../", "/").removesuffix(".md") for name in LINK.findall(text)
        ]
        yield heading, list(dict.fromkeys(pages))


def toctree(caption: str, pages: list[str]) -> str:
    """A table of contents for the side of the page, as MyST has it."""
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def interface() -> str:
    """The page of ``netprobe.__all__``, each name from its docstring."""
    lines = [
        "# Python interface",
        "",
        "[python.md](python.md) introduces it with examples.",
        "",
        "```{eval-rst}",
    ]
    for name in sorted(netprobe.__all__):
        if name == "__version__":
            continue
        found = getattr(netprobe, name)
        if isinstance(found, type):
            members = (
                "" if hasattr(found, "model_fields") or issubclass(found, Exception) else "   :members:\n"
            )
            # The fields of a document and its tables are in data-format.md and python.md; its call makes nothing.
            call = "()" if hasattr(found, "model_fields") else ""
            lines += [f".. autoclass:: netprobe.{name}{call}\n{members}"]
        elif callable(found):
            lines += [f".. autofunction:: netprobe.{name}\n"]
        else:
            lines += [f".. autodata:: netprobe.{name}\n   :no-value:\n"]
    return "\n".join([*lines, "```", ""])


def lay_out(source: Path) -> None:
    """The pages under ``source``, with the pages that are made here."""
    source.mkdir(parents=True)
    for name in PAGES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    docs = source / "docs"
    schemas = sorted(path.name for path in (docs / "schemas").glob("*.json"))
    text = "# JSON Schemas\n\n" + "\n".join(f"- [{name}]({name})" for name in schemas) + "\n"
    (docs / "schemas" / "index.md").write_text(text, encoding="utf-8")
    (docs / "api.md").write_text(interface(), encoding="utf-8")
    index = (docs / "index.md").read_text(encoding="utf-8").replace("](schemas/)", "](schemas/index.md)")
    trees = [toctree("Start", ["/README"])]
    for heading, pages in contents(index):
        more = {"Reference": ["/docs/api"], "Working on netprobe": ["/CHANGELOG", "/SECURITY"]}.get(
            heading, []
        )
        trees.append(toctree(heading, pages + [page for page in more if page not in pages]))
    (docs / "index.md").write_text(index + "".join(trees), encoding="utf-8")


def build(folder: Path) -> int:
    """The site in ``folder``, which is replaced; Sphinx's exit code."""
    from sphinx.cmd.build import build_main

    shutil.rmtree(folder, ignore_errors=True)
    work = folder.with_name(folder.name + ".work")
    shutil.rmtree(work, ignore_errors=True)
    try:
        lay_out(work / "source")
        config = "".join(f"{key} = {value!r}\n" for key, value in CONFIG.items())
        (work / "source" / "conf.py").write_text(config, encoding="utf-8")
        options = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(work / "doctrees")]
        code: int = build_main([*options, str(work / "source"), str(folder)])
    finally:
        shutil.rmtree(work, ignore_errors=True)
    target = html.escape(f"{START}.html")
    text = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">netprobe</a>\n'
    if folder.is_dir():
        (folder / "index.html").write_text(text, encoding="utf-8")
    return code


def main() -> int:
    """Build the site; 0, or what Sphinx ends with."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    folder = parser.parse_args().folder.resolve()
    try:
        code = build(folder)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error}: the site needs the extra docs: pip install '.[docs]'\n")
        return 1
    if code == 0:
        sys.stdout.write(f"{folder / 'index.html'}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
