"""``netprobe lab``: a fleet of network namespaces on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from netprobe.cli.help import Command
from netprobe.cli.lazy import commands
from netprobe.cli.output import JsonOption, Output, QuietOption, SeedOption

app = commands("A fleet of network namespaces on this machine.")

# The names as netprobe.lab has them, whose modules are slow to import.
_EXAMPLES = ", ".join(
    sorted(path.stem for path in (Path(__file__).parents[2] / "lab" / "examples").glob("*.yaml"))
)


@app.callback()
def _group() -> None:
    """A fleet of network namespaces on this machine."""


@app.command("up", cls=Command)
def up(
    spec: Annotated[
        str,
        typer.Argument(metavar="SPEC", help=f"A YAML file, or the name of a shipped example: {_EXAMPLES}."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the lab (the spec's otherwise).")
    ] = None,
    sshd: Annotated[
        bool | None, typer.Option("--sshd/--no-sshd", help="One sshd a host (as the spec says otherwise).")
    ] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make a lab and leave it running."""
    from netprobe.cli import rootless

    output = Output(json=json, quiet=quiet)
    via = "ip netns exec {target}"
    if rootless.is_needed():
        rootless.enter_shared(start=True)
        output.note(rootless.NOTE)
        via = ""
    from netprobe import lab
    from netprobe.core.units import count

    made = lab.up(lab.load_spec(spec), seed=seed, name=name, sshd=sshd)
    via = via or f"netprobe lab exec --host {{target}} {made.name} --"
    output.say(
        f"lab {made.name}: {count(len(made.hosts), 'host')}, files in {made.directory}",
        f'next: netprobe scan --hosts {made.hosts_path} --via "{via}" --out DIR',
    )
    output.result(_summary(made))
    return 0


@app.command("list", cls=Command)
def list_(json: JsonOption = False, quiet: QuietOption = False) -> int:
    """List the labs of this machine, or of an ordinary user."""
    from netprobe.cli import rootless

    output = Output(json=json, quiet=quiet)
    if rootless.is_needed() and not rootless.enter_shared(start=False):
        output.say("you have no lab (those of root are listed with sudo)")
        output.result({"labs": [], "remains": []})
        return 0
    from netprobe import lab
    from netprobe.core.units import count

    labs, orphans = lab.list_labs(), lab.orphans()
    lines = [
        f"{item.name}  {item.status}  {count(len(item.hosts), 'host')}  {item.directory}" for item in labs
    ]
    lines += [
        f"{item.name}  broken  {item.reason} (netprobe lab down {item.name} removes the rest)"
        for item in orphans
    ]
    output.say(*(lines or ["no lab is up"]))
    output.result(
        {
            "labs": [_summary(item) for item in labs],
            "remains": [{"name": item.name, "reason": item.reason} for item in orphans],
        }
    )
    return 0


@app.command(
    "exec", cls=Command, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def exec_(
    name: Annotated[str, typer.Argument(metavar="LAB", help="Name of the lab.")],
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.")],
    host: Annotated[
        str | None, typer.Option("--host", help="The host to run it on (else the controller).")
    ] = None,
) -> int:
    """Run a program on a host of a lab, or on its controller, which is not a host for ranks."""
    _enter(name)
    from netprobe import lab
    from netprobe.core.errors import InputError

    host, words = _host_and_words(host, argv)
    command = lab.find(name).exec_argv(host, words)
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be run: {error.strerror}") from None


def _host_and_words(host: str | None, argv: list[str]) -> tuple[str | None, list[str]]:
    """The host and the program, where --host may follow LAB too. Raises InputError."""
    from netprobe.core.errors import InputError

    first, equals, value = argv[0].partition("=")
    if first == "--host":
        if host is not None or (not equals and len(argv) < 2):
            raise InputError("--host needs the name of one host, once")
        host, argv = (value, argv[1:]) if equals else (argv[1], argv[2:])
    words = argv[1:] if argv[:1] == ["--"] else argv
    if not words:
        raise InputError("what is to be run is missing: netprobe lab exec LAB --host HOST PROGRAM ARGUMENTS")
    return host, words


@app.command("set", cls=Command)
def set_(
    name: Annotated[str, typer.Argument(metavar="LAB", help="Name of the lab.")],
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A host, two (a:b, or a>b for one direction), a rack (rack0), two (rack0:rack1), or all.",
        ),
    ],
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="rate=80Mbit/s, say.")],
    quiet: QuietOption = False,
) -> int:
    """Change a live lab."""
    _enter(name)
    from netprobe import lab
    from netprobe.core.errors import InputError

    found = lab.find(name)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"{setting!r} is not a KEY=VALUE such as rate=80Mbit/s")
        lab.set_value(found, what, key, value)
        Output(quiet=quiet).say(f"{name} {what}: {setting}")
    return 0


@app.command("down", cls=Command)
def down(
    name: Annotated[str | None, typer.Argument(metavar="LAB", help="Name of the lab.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every lab of this machine.")] = False,
    quiet: QuietOption = False,
) -> int:
    """Remove a lab: nothing of it is left, however it was made or broken."""
    from netprobe.core.errors import InputError

    if (name is None) == (not all_):
        raise InputError("name one lab, or give --all (netprobe lab list shows them)")
    _enter(name)
    from netprobe import lab

    if name is None:
        removed = lab.down_all()
    else:
        lab.down(name)
        removed = [name]
    Output(quiet=quiet).say(*([f"lab {item} is gone" for item in removed] or ["no lab is up"]))
    return 0


def _enter(name: str | None) -> None:
    """Go to where an ordinary user's labs are. Raises InputError when they have none and one is needed."""
    from netprobe.cli import rootless

    if not rootless.is_needed() or rootless.enter_shared(start=False):
        return
    from netprobe.core.errors import InputError

    raise InputError(
        f"you have no lab{'' if name is None else f' {name[:64]!r}'}: netprobe lab up makes one; "
        "those of root need sudo"
    )


def _summary(made: Any) -> dict[str, Any]:
    return {
        "name": made.name,
        "directory": str(made.directory),
        "hosts_file": str(made.hosts_path),
        "status": made.status,
        "truth_file": str(made.truth_path),
        "ssh_config": None if made.ssh_config_path is None else str(made.ssh_config_path),
        "hosts": [{"name": h.name, "target": h.target, "address": h.address} for h in made.hosts],
    }
