"""scripts/figures.py: tables of docs/figures.md are those of their commands, and nothing else of the page changes."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = """# Figures

Text.

<!-- bench: one --size 3 -->

| a |
| - |
| 1 |

<!-- end of one -->

More.

<!-- bench: one --size 4 -->
<!-- end of one -->
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "scripts" / "figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["figures"] = module
    spec.loader.exec_module(module)
    return module


def at(
    script: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch, benches: dict[str, str], page: str = PAGE
) -> Path:
    """A checkout of its own with these benchmarks; its page."""
    for folder in ("bench", "docs"):
        (root / folder).mkdir()
    for name, text in benches.items():
        (root / "bench" / f"{name}.py").write_text(text)
    path = root / "docs" / "figures.md"
    path.write_text(page)
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"),
    ):
        subprocess.run(("git", *words), cwd=root, check=True, timeout=60)
    monkeypatch.setattr(script, "ROOT", root)
    monkeypatch.setattr(script, "PAGE", path)
    return path


PRINTS = """import sys
print("A title\\n(2026-01-02, 2 cores, Linux 6, Python 3.11)\\n")
print("| size |\\n| --- |\\n| " + sys.argv[2] + " |")
"""


def test_what_a_command_prints_stands_in_its_place(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(script, tmp_path, monkeypatch, {"one": PRINTS})
    assert script.main([]) == 0
    text = path.read_text()
    first, second = script.figures(text)
    assert "| 3 |" in first.body and "| 1 |" not in first.body and "| 4 |" in second.body
    assert "A title" not in text and "Python 3.11" not in text
    head = subprocess.run(
        ("git", "rev-parse", "--short=9", "HEAD"), cwd=tmp_path, capture_output=True, text=True
    )
    for one in (first, second):
        assert f"*{head.stdout.strip()}, 20" in one.body and "cores, load " in one.body
    # The rest is the page's own, and a second run changes the tables only.
    assert script.BLOCK.sub("", text) == script.BLOCK.sub("", PAGE)
    assert script.main(["one"]) == 0
    assert script.BLOCK.sub("", path.read_text()) == script.BLOCK.sub("", PAGE)


def test_other_code_than_the_commits_is_said(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(script, tmp_path, monkeypatch, {"one": PRINTS})
    (tmp_path / "bench" / "one.py").write_text(PRINTS + "\n")
    assert script.main([]) == 0 and path.read_text().count(" with changes, ") == 2


@pytest.mark.parametrize("text", ["print('no table')", "import sys; print('| a |'); sys.exit(3)"])
def test_a_failed_command_leaves_its_table_and_the_others_run(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    page = PAGE[: PAGE.index("More.")] + "<!-- bench: two --size 4 -->\n<!-- end of two -->\n"
    path = at(script, tmp_path, monkeypatch, {"one": text, "two": PRINTS}, page)
    assert script.main([]) == 1
    first, second = script.figures(path.read_text())
    assert first.body == script.figures(page)[0].body and "| 4 |" in second.body


def test_a_table_without_its_end_is_an_error(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="2 tables begin, but 1"):
        script.figures(PAGE.replace("<!-- end of one -->", "<!-- end of two -->", 1))


def test_unknown_tables_are_refused(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["verdict", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_every_command_of_the_page_is_a_benchmark_with_these_options(script: ModuleType) -> None:
    found = script.figures((ROOT / "docs" / "figures.md").read_text(encoding="utf-8"))
    assert len(found) > 20 and len({one.command for one in found}) == len(found)
    for one in found:
        text = (ROOT / "bench" / f"{one.name}.py").read_text(encoding="utf-8")
        for option in (word for word in one.arguments if word.startswith("--")):
            assert f'"{option}"' in text, f"{one.command}: bench/{one.name}.py has no {option}"


def test_no_table_of_a_benchmark_stands_outside_its_marks(script: ModuleType) -> None:
    rest = script.BLOCK.sub("", (ROOT / "docs" / "figures.md").read_text(encoding="utf-8"))
    tables = re.findall(r"^`make (\w+)[^\n]*(?:\n(?!`make )[^\n]*)*?\n\|", rest, re.M)
    assert set(tables) <= {"mutants"}
