"""How what is missing is installed into the very Python that runs netprobe, and whether netprobe is in it once."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "netprobe-fleet"
FOREIGN = "netprobe"
"""A project on the Python index that is not this one, and installs an import package of the same name."""


def install_command(extra: str) -> str:
    """A command for a shell: another pip on the path would serve another Python."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip install '{DISTRIBUTION}[{extra}]'"


BASE = {
    "numpy": "numpy",
    "scipy": "scipy",
    "array_api_compat": "array-api-compat",
    "pydantic": "pydantic",
    "typer": "typer",
    "rich": "rich",
    "yaml": "PyYAML",
}
"""What the base install needs: the names to import, and the packages that have them."""


def missing_text(module: str) -> str:
    """One line for an import that found nothing: all that this Python lacks, and how to install it."""
    from importlib.util import find_spec

    lacking = [package for name, package in BASE.items() if name == module or find_spec(name) is None]
    packages = lacking if module in BASE else [module, *lacking]
    python = sys.executable or "python3"
    return (
        f"{python} lacks {', '.join(packages)}, which netprobe needs: {package_command(' '.join(packages))}"
    )


def place() -> Path | None:
    """The folder of the package that runs; None where it is in no folder."""
    file = getattr(sys.modules.get("netprobe"), "__file__", None)
    return None if file is None else Path(file).resolve().parent


@dataclass(frozen=True, kw_only=True)
class WrongInstall:
    """Something that may make Python run other code than what was installed last, and what to do about it."""

    found: str
    remedy: str


def wrong_installs() -> list[WrongInstall]:
    """Another project in netprobe's place, and other copies of netprobe, as far as this Python can see them."""
    from importlib import metadata

    uninstall = f"{shlex.quote(sys.executable or 'python3')} -m pip uninstall"
    found = [
        WrongInstall(
            found=f"another project called {FOREIGN} ({one.version}) is installed in {one.locate_file('')}: "
            "its files and those of this one overwrite each other",
            remedy=f"{uninstall} {FOREIGN} {DISTRIBUTION}, then install this one again",
        )
        for one in metadata.distributions(name=FOREIGN)
    ]
    others = sorted(map(str, _copies() - {place()}))
    if others:
        found.append(
            WrongInstall(
                found=f"Python finds netprobe more than once: {place()} is used, not {', '.join(others)}",
                remedy=f"keep one of them ({uninstall} {DISTRIBUTION}; unset PYTHONPATH)",
            )
        )
    return found


def _copies() -> set[Path | None]:
    """Every folder from which Python could load netprobe: on its path, or where an editable install points."""
    from importlib import metadata

    roots = {Path(entry or ".") for entry in sys.path}
    for one in metadata.distributions(name=DISTRIBUTION):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            source = json.loads(one.read_text("direct_url.json") or "{}")
            if source.get("dir_info", {}).get("editable"):
                roots.add(Path(unquote(urlsplit(source["url"]).path)))
    copies: set[Path | None] = set()
    for root in roots:
        with contextlib.suppress(OSError):
            if (root / "netprobe" / "__init__.py").is_file():
                copies.add((root / "netprobe").resolve())
    return copies


def package_command(package: str) -> str:
    """The same for a package that none of the extras has."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip install {package}"
