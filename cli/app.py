"""The application: its commands, each in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from netprobe._version import __version__
from netprobe.cli import (
    capacity,
    doctor,
    evaluate,
    export,
    importing,
    lab,
    manifest,
    mapping,
    plan,
    scan,
    schema,
)

EXIT_CODES = (
    "Exit codes: 0 good, 1 a bug of ours, 2 bad input or usage, 3 partial (some hosts or links are "
    "missing), 4 nothing measured, 130 interrupted."
)

app = typer.Typer(
    name="netprobe",
    help="Find the racks of a rented fleet with real probes, and order the ranks to suit.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"netprobe {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command("scan")(scan.scan)
app.command("map")(mapping.map_)
app.command("capacity")(capacity.capacity)
app.add_typer(plan.app, name="plan")
app.add_typer(export.app, name="export")
app.command("eval")(evaluate.eval_)
app.add_typer(importing.app, name="import")
app.add_typer(lab.app, name="lab")
app.add_typer(manifest.app, name="manifest")
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)


def usage_error_text(error: Exception) -> str | None:
    """What a usage error says, on one line; empty for an abort; None when it is no usage error.

    typer carries its own copy of click in some versions, so the classes are told by their names.
    """
    names = {base.__name__ for base in type(error).__mro__}
    if "Abort" in names:
        return ""
    if "ClickException" not in names:
        return None
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "netprobe")
    if "NoArgsIsHelpError" in names:
        typer.echo(message)
        return f"a command is missing (see {command} --help)"
    return f"{message} (see {command} --help)"
