"""A changed file put into a process that has imported the unchanged one, for scripts/mutants_server.py."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
import types
from collections.abc import Hashable, Iterable


class ImportedOtherwise(Exception):
    """The change is of what runs when the file is imported: functions cannot be given it afterwards."""


def patched(path: str, before: str, after: str) -> None:
    """Give every function of a file that a change of its text concerns the code of the changed text.

    Functions keep their identity, so that whoever imported one sees the change. Raises ImportedOtherwise for what
    only a new import would show: the module's own statements, bodies of classes, default values of arguments.
    """
    new = dict(_changed(compile(before, path, "exec"), compile(after, path, "exec")))
    where = os.path.realpath(path)
    imported = [one for one in list(sys.modules.values()) if _file_of(one) == where]
    found = _given(new, where, _functions(imported))
    if imported and found < set(new):
        # Looking through all there is touches all memory, which a fork shares until then.
        gc.unfreeze()
        everything = gc.get_objects()
        found |= _given(new, where, [one for one in everything if isinstance(one, types.FunctionType)])
        if found < set(new):  # called by an import, and thrown away
            raise ImportedOtherwise


def _given(
    new: dict[Hashable, types.CodeType], where: str, among: Iterable[types.FunctionType]
) -> set[Hashable]:
    """Give those ``among`` that are meant their new code: which ones were there."""
    found: set[Hashable] = set()
    for function in among:
        key = _key(function.__code__)
        if key not in new or os.path.realpath(function.__code__.co_filename) != where:
            continue
        try:
            function.__code__ = new[key]
        except ValueError:  # it takes other variables of the function around it
            raise ImportedOtherwise from None
        found.add(key)
    return found


def _functions(modules: list[types.ModuleType]) -> list[types.FunctionType]:
    """Those that modules and their classes hold, below decorators too."""
    todo: list[object] = [value for module in modules for value in vars(module).values()]
    names = {module.__name__ for module in modules}
    found: dict[int, types.FunctionType] = {}
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.FunctionType):
            found[id(one)] = one
            todo += [cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell)]
        elif isinstance(one, type) and one.__module__ in names:
            todo += vars(one).values()
        elif isinstance(one, property):
            todo += [one.fget, one.fset, one.fdel]
        elif isinstance(one, (staticmethod, classmethod)):
            todo.append(one.__func__)
        elif isinstance(one, (functools.partial, functools.cached_property)):
            todo.append(one.func)
        elif isinstance(one, (list, tuple)) and len(one) < 100:
            todo += one
        elif isinstance(one, dict) and len(one) < 100:
            todo += one.values()
        if isinstance(wrapped := getattr(one, "__wrapped__", None), types.FunctionType):
            todo.append(wrapped)
    return list(found.values())


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _file_of(module: object) -> str:
    return os.path.realpath(getattr(module, "__file__", None) or "")


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
    # Python 3.10 has no names with the class in front; the line tells methods apart there.
    return getattr(code, "co_qualname", code.co_name), code.co_firstlineno


def _itself(code: types.CodeType) -> Hashable:
    """What a code object does, without its place in the file and without the functions in it."""
    values = [None if isinstance(one, types.CodeType) else (type(one), repr(one)) for one in code.co_consts]
    return code.co_code, tuple(values), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _whole(code: types.CodeType) -> Hashable:
    """`_itself`, and the same of the functions in it."""
    return _itself(code), tuple(_whole(one) for one in _inside(code))
