"""The application: its commands, each in a file of its own."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from netprobe._version import __version__
from netprobe.cli.lazy import Lazy, group_of

EXIT_CODES = (
    "Exit codes: 0 good, 1 a bug of ours, 2 bad input or usage, 3 partial (some hosts or links are "
    "missing), 4 nothing measured, 130 interrupted."
)


def _in(module: str, name: str, help_: str) -> Lazy:
    return Lazy(module=f"netprobe.cli.commands.{module}", name=name, help=help_)


COMMANDS = {
    "scan": _in("scan", "scan", "Probe the hosts, map them, order the ranks, write the hostfile."),
    "map": _in("mapping", "map_", "Denoise a scan's distances, judge locality and form groups."),
    "capacity": _in("capacity", "capacity", "Measure what each host and each group's uplink carries."),
    "plan": _in("plan", "app", "Make a communication plan from a map."),
    "verify": _in("verify", "verify", "Run the plan's order against another on the hosts."),
    "export": _in("export", "app", "Write a plan as a launcher's own file."),
    "check-order": _in("check_order", "check_order", "Say whether the ranks run where a plan puts them."),
    "launch": _in("launch", "launch", "Start a job on a plan's hosts, in the plan's order."),
    "show": _in("show", "show", "Show a scan's folder again: groups, order, verdict, links."),
    "eval": _in("evaluate", "eval_", "Judge a scan or a map: PAIA, ARI, AMI, purity."),
    "import": _in("importing", "app", "Make a document of what others measured."),
    "doctor": _in("doctor", "doctor", "Say what this machine offers, and what each host lacks."),
    "lab": _in("lab", "app", "A fleet of network namespaces on this machine."),
    "manifest": _in("manifest", "app", "Print what an engine needs to hold the hosts of a scan."),
    "schema": _in("schema", "schema", "Print the JSON Schema of a kind of document."),
    "docs": _in("docs", "docs", "Print a page of the documentation."),
    "completion": _in("completion", "completion", "Let bash, zsh or fish complete the command line."),
    "help": _in("help", "help_", "Print the help of a command."),
}
"""Lines of 66 characters at the most: help has one for each."""

app = typer.Typer(
    name="netprobe",
    cls=group_of(COMMANDS),
    help="Measure the network between hosts, find which share a rack, and order the ranks accordingly.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from netprobe.core.system.install import wrong_installs

        typer.echo(f"netprobe {__version__}")
        for wrong in wrong_installs():
            typer.echo(f"netprobe: {wrong.found}: {wrong.remedy}", err=True)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


def made(application: typer.Typer) -> Any:
    """The tree of commands as typer makes it, each loaded when it is looked at."""
    return typer.main.get_command(application)


_POSSIBLE = re.compile(r" ?\(Possible options?: ([^)]*)\)$")


def usage_error_text(error: Exception) -> str | None:
    """What a usage error says, on one line; empty for an abort; None when it is not a usage error.

    typer carries its own copy of click in some versions, so the classes are recognized by their names.
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
    if getattr(error, "option_name", None) == "-v" and command == "netprobe":
        message = f"{message}. Did you mean -V (the version)? -v is of a command: netprobe scan -v"
    message = _POSSIBLE.sub(r". Did you mean \1?", message)
    return f"{message} (see {command} --help)"
