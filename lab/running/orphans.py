"""Labs that lost what is known about them: deleted by hand, damaged, or only begun.

A lab is its directory, its namespaces and its switch. Any of these that is left is enough to find it, to
say what happened, and to take it down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netprobe.core.errors import SpecError
from netprobe.lab.kernel import NETNS, namespace_path
from netprobe.lab.spec.fields import NAME_PATTERN
from netprobe.lab.spec.layout import CONTROLLER_NAME, FABRIC_NAME
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.state import LABS, STATE_FILE, LabState, Process, directory_of, lab_names, process
from netprobe.lab.switch.control import SOCKET_FILE, SWITCH_COMMAND


@dataclass(frozen=True, kw_only=True)
class Orphan:
    """What is left of a lab that cannot be used, and why it cannot."""

    name: str
    reason: str


def orphans() -> list[Orphan]:
    """Every lab of which something is left and which cannot be read, by name."""
    found = {name: why_unreadable(name) for name in lab_names()}
    found |= dict.fromkeys(names_without_directory(), "its directory was deleted")
    return [Orphan(name=name, reason=reason) for name, reason in sorted(found.items()) if reason]


def why_unreadable(name: str) -> str:
    """Why the state of a lab that has a directory says nothing; empty when it can be read."""
    directory = directory_of(name)
    state = LabState.load(directory)
    if state is None:
        if (directory / STATE_FILE).exists():
            return f"its {STATE_FILE} is damaged or of another version"
        return f"its {STATE_FILE} was deleted" if _has_namespaces(name) else "it has only been begun"
    try:
        LabSpec.from_spec(state.spec)
    except SpecError:
        return f"its {STATE_FILE} holds no possible lab"
    return ""


def names_without_directory() -> list[str]:
    """The names of labs whose directory is missing and whose namespaces or switch still exist."""
    fabrics = {path.name.removesuffix(f".{FABRIC_NAME}") for path in NETNS.glob(f"*.{FABRIC_NAME}")}
    named = {name for name in fabrics if NAME_PATTERN.fullmatch(name) and _has_namespaces(name)}
    named |= {name for name, _ in _switches()}
    return sorted(named.difference(lab_names()))


def namespaces_by_name(name: str) -> tuple[str, ...]:
    """The network namespaces that a lab's name gives away; none unless both of every lab's own are there."""
    # A name ends at the dot. Another user's single namespace is not a lab.
    return tuple(sorted(path.name for path in NETNS.glob(f"{name}.*"))) if _has_namespaces(name) else ()


def switches_by_name(name: str) -> list[Process]:
    """The switches that run for a lab, known by their command line."""
    return [found for lab, found in _switches() if lab == name]


def _has_namespaces(name: str) -> bool:
    return all(namespace_path(f"{name}.{end}").exists() for end in (FABRIC_NAME, CONTROLLER_NAME))


def _switches() -> Iterator[tuple[str, Process]]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            if (path / "comm").read_bytes().strip() != SWITCH_COMMAND.encode():
                continue
            words = (path / "cmdline").read_bytes().split(b"\0")
            place = Path(words[1].decode())
            name = place.parent.name
            found = process(int(path.name))
            if place == LABS / name / SOCKET_FILE and NAME_PATTERN.fullmatch(name) and found is not None:
                yield name, found
