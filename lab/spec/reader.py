"""Specs from YAML files and from the shipped examples. For any text the outcome is a spec or a SpecError."""

from __future__ import annotations

import errno
import os
import re
import select
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from netprobe.core.errors import SpecError
from netprobe.lab.spec.spec import LabSpec

SPEC_BYTES_LIMIT = 64 * 1024
DEPTH_LIMIT = 16
STREAM_WAIT_S = 5.0
EXAMPLES = Path(__file__).parents[1] / "examples"


def example_names() -> tuple[str, ...]:
    """The names of the specs that come with netprobe, sorted."""
    return tuple(sorted(path.stem for path in EXAMPLES.glob("*.yaml")))


def load_spec(source: str | Path) -> LabSpec:
    """Read a spec from a YAML file, or take a shipped example by its name.

    A name without a slash or a .yaml ending means an example. A spec that names no lab gets its file's
    name. Raises SpecError with every fault found.
    """
    path = _find(source)
    shown = str(source)
    try:
        raw = _read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(
            [f"cannot be read ({reason}): give a YAML file or one of {_examples()}"], source=shown
        ) from error
    return parse_spec(raw, source=shown, default_name=_default_name(path))


def parse_spec(raw: bytes | str, *, source: str | None = None, default_name: str = "lab") -> LabSpec:
    """Read a spec from YAML text. Raises SpecError with every fault found."""
    if len(raw) > SPEC_BYTES_LIMIT:
        raise SpecError([f"larger than {SPEC_BYTES_LIMIT // 1024} KiB, which no lab spec is"], source=source)
    document = _parse_yaml(raw, source)
    if not isinstance(document, dict):
        given = "nothing" if document is None else f"a {type(document).__name__}"
        raise SpecError([f"holds {given}, and a mapping with 'racks:' is needed"], source=source)
    odd = [key for key in document if not isinstance(key, str)]
    if odd:
        raise SpecError([f"{str(key)[:32]!r}: unknown key" for key in odd[:8]], source=source)
    try:
        return LabSpec.from_spec({"name": default_name, **document})
    except SpecError as error:
        raise SpecError(error.faults, source=source) from error


def _read(path: Path) -> bytes:
    """The file's beginning, a little more than a spec may have. OSError, also when a stream sends nothing more."""
    # A named pipe that nobody writes to would block for ever, in open and in read.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + STREAM_WAIT_S
        raw = b""
        while len(raw) <= SPEC_BYTES_LIMIT:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1e3):
                raise TimeoutError(errno.ETIMEDOUT, f"no end of it came within {STREAM_WAIT_S:.0f} s")
            chunk = os.read(descriptor, SPEC_BYTES_LIMIT + 1 - len(raw))
            if not chunk:
                break
            raw += chunk
        return raw
    finally:
        os.close(descriptor)


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases (a small file must not grow) and without silently doubled keys."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not used in a lab spec")
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise yaml.YAMLError("nested too deeply")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.YAMLError(
                        f"key {key.value[:32]!r} is there twice (line {key.start_mark.line + 1})"
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _parse_yaml(raw: bytes | str, source: str | None) -> object:
    try:
        return yaml.load(raw, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        raise SpecError([f"is not YAML: {error.problem or error.context}{where}"], source=source) from error
    except Exception as error:
        # PyYAML lets odd scalars and tags escape as almost anything: ValueError, KeyError, IndexError,
        # AttributeError. All mean that the text cannot be read.
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise SpecError([f"is not YAML: {reason}"], source=source) from error


def _find(source: str | Path) -> Path:
    path = Path(source)
    if isinstance(source, Path) or "/" in source or path.suffix in (".yaml", ".yml"):
        return path
    if source in example_names():
        return EXAMPLES / f"{source}.yaml"
    return path


def _default_name(path: Path) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower())[:24].strip("-")
    return name or "lab"


def _examples() -> str:
    return ", ".join(example_names())
