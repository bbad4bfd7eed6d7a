"""A changed file put into a process that has imported the unchanged one, for scripts/mutants_server.py."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import types
from collections.abc import Hashable


class ImportedOtherwise(Exception):
    """The change is of what runs when the file is imported: functions cannot be given it afterwards."""


def patched(path: str, before: str, after: str) -> None:
    """Give every function of a file that a change of its text concerns the code of the changed text.

    Functions keep their identity, so that whoever imported one sees the change. Raises ImportedOtherwise for what
    only a new import would show: the module's own statements, bodies of classes, default values of arguments.
    """
    new = dict(_changed(compile(before, path, "exec"), compile(after, path, "exec")))
    where = os.path.realpath(path)
    real: dict[str, str] = {}
    for function in [one for one in gc.get_objects() if isinstance(one, types.FunctionType)]:
        name = function.__code__.co_filename
        if real.setdefault(name, os.path.realpath(name)) != where:
            continue
        code = new.get(_key(function.__code__))
        if code is not None:
            try:
                function.__code__ = code
            except ValueError:  # it takes other variables of the function around it
                raise ImportedOtherwise from None
    # What is imported later is the changed file. A function of a file imported before that nobody holds by now is
    # one that was called and thrown away.
    if any(
        os.path.realpath(getattr(one, "__file__", None) or "") == where for one in list(sys.modules.values())
    ):
        held = {_key(one.__code__) for one in gc.get_objects() if isinstance(one, types.FunctionType)}
        if not all(_key(code) in held for code in new.values()):
            raise ImportedOtherwise


def _changed(before: types.CodeType, after: types.CodeType) -> list[tuple[Hashable, types.CodeType]]:
    """The functions of a module or class that do something else, by their name and place before."""
    if _itself(before) != _itself(after):
        raise ImportedOtherwise
    found: list[tuple[Hashable, types.CodeType]] = []
    for old, new in zip(_inside(before), _inside(after)):  # as many, as `_itself` says
        if not old.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
            found += _changed(old, new)
        elif _whole(old) != _whole(new):
            found.append((_key(old), new))
    if len({key for key, _ in found}) < len(found):
        raise ImportedOtherwise
    return found


def _inside(code: types.CodeType) -> list[types.CodeType]:
    return [one for one in code.co_consts if isinstance(one, types.CodeType)]


def _key(code: types.CodeType) -> Hashable:
    return code.co_qualname, code.co_firstlineno


def _itself(code: types.CodeType) -> Hashable:
    """What a code object does, without its place in the file and without the functions in it."""
    values = [None if isinstance(one, types.CodeType) else (type(one), repr(one)) for one in code.co_consts]
    return code.co_code, tuple(values), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _whole(code: types.CodeType) -> Hashable:
    """`_itself`, and the same of the functions in it."""
    return _itself(code), tuple(_whole(one) for one in _inside(code))
