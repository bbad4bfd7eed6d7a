"""Commands whose modules are imported when they are called: ``netprobe --help`` needs none of them."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup


@dataclass(frozen=True, kw_only=True)
class Lazy:
    """A command, or a typer application of several, and the line that help has for it."""

    module: str
    name: str
    help: str

    def load(self, command: str) -> Any:
        """The command as typer makes it, under this name."""
        found: typer.Typer | Callable[..., Any] = getattr(importlib.import_module(self.module), self.name)
        if isinstance(found, typer.Typer):
            made = typer.main.get_command(found)
        else:
            from netprobe.cli.help import Command

            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(command, cls=Command)(found)
            made = typer.main.get_command(app)
        made.name = command
        return made


class LazyCommands(dict[str, Any]):
    """A command by its name, made when it is first used."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, Lazy):
            found = self[name] = found.load(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dictionary."""
        return self[name] if name in self.keys() else default

    def items(self) -> Any:
        """All of them, made."""
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        """All of them, made."""
        return [self[name] for name in self]


_NAMED = "netprobe.cli.lazy.named"


class _Group(TyperGroup):
    """Several commands. To read one of its own options typer imports pydantic: not where a command is given first."""

    def get_params(self, ctx: Any) -> Any:
        """The group's own options, where one may be given."""
        return [] if ctx.meta.get(_NAMED) is self else super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """As usual; before a command that comes first there are no options."""
        ctx.meta[_NAMED] = self if args and args[0] in self.commands else None
        try:
            return super().parse_args(ctx, args)
        finally:
            ctx.meta[_NAMED] = None


class WholeHelp(_Group):
    """Several commands, whose lines of help are wrapped where the terminal ends and never cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A line for each, its help up to the first empty line."""
        rows = []
        for name in self.list_commands(ctx):
            text = inspect.cleandoc(getattr(self.get_command(ctx, name), "help", None) or "")
            rows.append((name, " ".join(text.partition("\n\n")[0].split())))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Two examples, as each of its commands has."""
        from netprobe.cli.help import write_examples

        super().format_epilog(ctx, formatter)
        write_examples(self.name, formatter)


def or_default(default: str, choose: Callable[[Sequence[str]], str] | None = None) -> type[WholeHelp]:
    """Several commands of which ``default`` is meant where what is given first is an option or a document.

    ``choose`` tells it from the arguments where it is not always the same. A word that is neither a command nor like a
    path stays what it is: a mistyped command.
    """

    class WithDefault(WholeHelp):
        def parse_args(self, ctx: Any, args: list[str]) -> Any:
            """As usual, the default put before anything but a command."""
            first = args[0] if args else "--help"
            is_option = first.startswith("-") and first not in ctx.help_option_names
            if is_option or (first not in self.commands and not first.startswith("-") and _is_path(first)):
                args = [default if choose is None else choose(args), *args]
            return super().parse_args(ctx, args)

    return WithDefault


def _is_path(word: str) -> bool:
    try:
        return os.sep in word or "." in word or Path(word).exists()
    except (OSError, ValueError):
        return False


def commands(help_: str, cls: type[TyperGroup] = WholeHelp) -> typer.Typer:
    """An application of several commands, as netprobe's are: ``netprobe plan``, say."""
    return typer.Typer(cls=cls, help=help_, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def group_of(known: Mapping[str, Lazy]) -> type[TyperGroup]:
    """A class for ``typer.Typer(cls=...)`` whose commands are these, in this order."""

    class LazyGroup(_Group):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = LazyCommands(known)

        def parse_args(self, ctx: Any, args: list[str]) -> Any:
            """As usual; ``help scan`` is ``scan --help``."""
            if args[:1] == ["help"] and args[1:] and not any(word.startswith("-") for word in args):
                args = [*args[1:], "--help"]
            return super().parse_args(ctx, args)

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            """Their names; not one is made."""
            return list(self.commands)

        def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
            """Their lines of help; not one is made."""
            with formatter.section("Commands"):
                formatter.write_dl([(name, one.help) for name, one in known.items()])

    return LazyGroup
