"""The changes that scripts/mutants.py makes to code, found in its syntax tree."""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
TWINS = {
    "min": "max", "max": "min", "all": "any", "any": "all", "argmin": "argmax", "argmax": "argmin",
    "floor": "ceil", "ceil": "floor", "mean": "median", "median": "mean", "minimum": "maximum",
    "maximum": "minimum", "nanmin": "nanmax", "nanmax": "nanmin", "nanmedian": "nanmean",
}  # fmt: skip
SYMMETRIC = {"min", "max", "minimum", "maximum", "fmin", "fmax", "array_equal", "hypot", "add", "gcd"}
"""Functions whose first two arguments may be swapped: no fault."""
NO_FAULT = {"dtype"}
"""Keywords that say what is so without them, almost everywhere."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One change: characters ``begin`` to ``end`` of a file become ``text``. ``function`` is "path:first line"."""

    path: str
    line: int
    kind: str
    function: str
    begin: int
    end: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.kind})"

    def applied(self, source: str) -> str:
        """The changed file."""
        return source[: self.begin] + self.text + source[self.end :]

    def difference(self, source: str, lines: int) -> str:
        """At most so many lines on either side."""
        found = difflib.unified_diff(source.splitlines(), self.applied(source).splitlines(), n=0, lineterm="")
        changed = [line for line in list(found)[2:] if not line.startswith("@@")]
        gone, come = ([line for line in changed if line.startswith(sign)] for sign in "-+")
        return "\n".join(gone[:lines] + come[:lines])


def mutations_of(source: str, path: str) -> Iterator[Mutation]:
    """Every change of the code of one file, in the order of its places."""
    encoded = source.encode()
    starts = [0]
    for line in encoded.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return len(encoded[: starts[line - 1] + column].decode())

    for node, function in _nodes(ast.parse(source)):
        begin, end = (
            place(node.lineno, node.col_offset),
            place(node.end_lineno or 0, node.end_col_offset or 0),
        )
        for kind, changed in _changes(node):
            text = ast.unparse(changed)
            if isinstance(changed, ast.expr):
                text = f"({text})"
            if "\n" in text:
                continue
            yield Mutation(
                path=path,
                line=node.lineno,
                kind=kind,
                function=f"{path}:{function}",
                begin=begin,
                end=end,
                text=text,
            )


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, int]]:
    """Statements and expressions that do something, with the first line of their function (0: of none)."""

    def visit(node: ast.AST, function: int) -> Iterator[tuple[ast.expr | ast.stmt, int]]:
        if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arg)):
            return  # texts and annotations
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Raise):
            yield node, function
            return  # what a message says is not the folder's to test
        inside = function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            # A code object begins with the first decorator.
            decorators = getattr(node, "decorator_list", [])
            inside = min([node.lineno, *(one.lineno for one in decorators)])
        if isinstance(node, (ast.expr, ast.stmt)):
            yield node, inside if isinstance(node, ast.Lambda) else function
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visit(child, inside)

    yield from visit(tree, 0)


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            if type(operator) in COMPARISONS:
                yield "comparison", _with(node, lambda new, at=at: _set(new.ops, at, COMPARISONS))
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        yield "arithmetic", _with(node, lambda new: setattr(new, "op", ARITHMETIC[type(new.op)]()))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield "boolean", _with(node, lambda new: setattr(new, "op", other()))
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield "boolean" if isinstance(node.op, ast.Not) else "arithmetic", node.operand
    elif isinstance(node, ast.IfExp):
        yield "condition", _with(node, lambda new: setattr(new, "test", ast.UnaryOp(ast.Not(), new.test)))
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield "constant", ast.Constant(_other(node.value))
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return", ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    if isinstance(node, (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ) or (isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple))):  # fmt: skip
        yield "dropped statement", ast.Pass()


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    plain = len(node.args) >= 2 and not any(isinstance(one, ast.Starred) for one in node.args[:2])
    if plain and name not in SYMMETRIC and ast.unparse(node.args[0]) != ast.unparse(node.args[1]):
        yield "argument", _with(node, lambda new: new.args.insert(0, new.args.pop(1)))
    for at, keyword in enumerate(node.keywords):
        if keyword.arg not in NO_FAULT:
            yield "dropped argument", _with(node, lambda new, at=at: new.keywords.pop(at))
    if name in TWINS:
        key = "attr" if isinstance(node.func, ast.Attribute) else "id"
        yield "function", _with(node, lambda new: setattr(new.func, key, TWINS[name]))


def _with(node: ast.expr | ast.stmt, change: Callable[..., object]) -> ast.expr | ast.stmt:
    new = copy.deepcopy(node)
    change(new)
    return new


def _set(operators: list[ast.cmpop], at: int, table: dict[type[ast.cmpop], type[ast.cmpop]]) -> None:
    operators[at] = table[type(operators[at])]()


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _other(value: bool | int | float) -> bool | int | float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value * 2 if value else 1.0
