"""scripts/make_site.py: every page in a table of contents, every public name in the reference, and a strict build."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import netprobe
from tests.repository.project import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "scripts" / "make_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_a_table_of_contents(script: ModuleType, tmp_path: Path) -> None:
    script.lay_out(tmp_path / "source")
    text = (tmp_path / "source" / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL)
    listed = {line for tree in trees for line in tree.splitlines() if line.startswith("/")}
    pages = {
        f"/{page.relative_to(tmp_path / 'source').with_suffix('').as_posix()}"
        for page in (tmp_path / "source").rglob("*.md")
    }
    # The list of schemas is reached from the index itself.
    assert pages - listed <= {"/docs/index", "/docs/schemas/index"}
    assert listed <= pages


def test_every_link_leads_to_a_file_of_the_site(script: ModuleType, tmp_path: Path) -> None:
    """As the strict build asks, which needs Sphinx: what is linked has to be among the files that are laid out."""
    source = tmp_path / "source"
    script.lay_out(source)
    dead = [
        (page.relative_to(source).as_posix(), link)
        for page in source.rglob("*.md")
        for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link and not link.startswith(("mailto:", "/")) and not (page.parent / link).exists()
    ]
    assert dead == []


def test_the_reference_has_every_public_name(script: ModuleType) -> None:
    text = script.interface()
    lost = [
        name
        for name in netprobe.__all__
        if not re.search(rf":: netprobe\.{name}(\(\))?$", text, re.MULTILINE)
    ]
    assert lost == ["__version__"]


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package)
    assert script.build(tmp_path / "site") == 0, capfd.readouterr().err
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    loaded = re.compile(r"""<(?:script|img|iframe)[^>]*src="(?:https?:)?//|<link[^>]*href="(?:https?:)?//""")
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []
    styles = [path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.css")]
    assert not any("@font-face" in style or re.search(r"@import[^;]*//", style) for style in styles)

    def with_a_dead_link(source: Path) -> None:
        lay_out(source)
        page = source / "docs" / "usage.md"
        page.write_text(page.read_text(encoding="utf-8") + "\n[gone](no-such-page.md)\n", encoding="utf-8")

    lay_out = script.lay_out
    monkeypatch.setattr(script, "lay_out", with_a_dead_link)
    assert script.build(tmp_path / "site") != 0
    assert "no-such-page.md" in capfd.readouterr().err
