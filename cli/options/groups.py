"""Options that several commands share, stated once: a dataclass whose fields are options is one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """The command as typer wants it: each parameter that is a dataclass opened into its fields.

    A field is annotated as a parameter of typer's is, and has a default.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = []
    groups = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if not is_dataclass(hints[name]):
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        groups[name] = hints[name]
        of_fields = get_type_hints(hints[name], include_extras=True)
        parameters += [
            inspect.Parameter(one.name, parameter.kind, default=one.default, annotation=of_fields[one.name])
            for one in fields(hints[name])
        ]

    @functools.wraps(command)
    def opened(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        return command(**given)

    opened.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    opened.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return opened
